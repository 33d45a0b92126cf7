"""Measures and exhibits of sparse and hierarchical codes, where the truth is known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from untwine.data.dataset import Factors
from untwine.errors import DataError
from untwine.reproduce.exhibits.curves import curves
from untwine.reproduce.papers.intel_vae.exhibits import (
    by_level,
    class_names,
    distinctive_latents,
)
from untwine.reproduce.papers.intel_vae.labels import row_counts, sizes, widths
from untwine.reproduce.papers.intel_vae.measures import (
    active_latents,
    activity,
    attributes,
    level_slices,
    levels,
    mean_magnitudes,
    mean_overlap,
    split_rows,
)

N = 600


class Rows:
    """Vectors as data, with their factors."""

    evaluation = None

    def __init__(self, values, table, names):
        self.values = torch.as_tensor(values, dtype=torch.float32)
        counts = tuple(int(n) for n in np.asarray(table).max(0) + 1)
        self.factors = Factors(names, counts, np.asarray(table))

    def __len__(self):
        return len(self.values)

    def take(self, index):
        return self.values[torch.as_tensor(index)]


def finished(values, table, names):
    """A run whose model's representation is the example itself."""
    model = SimpleNamespace(encode=lambda x: x)
    spec = SimpleNamespace(data=SimpleNamespace(name="made"))
    return SimpleNamespace(model=model, data=Rows(values, table, names), spec=spec)


def labelled(seed=0):
    """Codes whose first latent is an attribute; a rare one that none knows; ten classes."""
    rng = np.random.default_rng(seed)
    known, rare = rng.integers(2, size=N), (np.arange(N) % 10 == 0).astype(int)
    codes = np.stack([8.0 * known - 4, *rng.normal(size=(3, N))], 1)
    return finished(
        codes, np.stack([known, rare, rng.integers(10, size=N)], 1), ("known", "rare", "many")
    )


def test_a_line_tells_what_a_latent_knows_and_the_more_frequent_answer_of_the_rest():
    found = attributes(labelled(), sizes=(10_000, 50, 200), each=["known", "rare"], repeats=2)
    assert found["known at 50"] == found["known at 200"] == 1.0
    assert found["rare at 200"] == pytest.approx(0.9, abs=0.04)
    assert found["base rate of rare"] == pytest.approx(0.9, abs=0.04)
    assert found["accuracy"] == found["accuracy at 200"]
    assert found["accuracy at 200"] == (found["known at 200"] + found["rare at 200"]) / 2


def test_sizes_that_the_data_does_not_have_and_factors_of_many_levels_are_left_out():
    found = attributes(labelled(), sizes=(50, 401), each=["many"])
    assert "accuracy at 401" not in found
    assert not any("many" in name for name in found)


def test_attributes_need_a_factor_of_two_levels():
    with pytest.raises(DataError, match="a factor of two levels"):
        attributes(finished(np.eye(3), [[0], [1], [2]], ("many",)), sizes=(2,))


def test_one_answer_in_the_rows_to_learn_from_is_the_answer():
    made = labelled()
    made.data.factors = Factors(("none",), (2,), np.zeros((N, 1), int))
    assert attributes(made, sizes=(50,))["accuracy"] == 1.0


def test_rows_to_learn_from_are_not_tested_on():
    learn, test = split_rows(labelled().data, 100, 0)
    assert len(learn) == 100 and len(test) == N // 3
    assert not set(learn) & set(test)


def of_classes(values):
    """Each class c has the codes ±values[c]."""
    table = np.arange(N) % len(values)
    signs = np.where(np.arange(N) // len(values) % 2, 1.0, -1.0)
    return finished(np.asarray(values)[table] * signs[:, None], table[:, None], ("class",))


def test_magnitudes_are_the_mean_sizes_of_each_class():
    values = [[1.0, 0.0, 2.0], [0.5, 3.0, 0.0]]
    assert np.allclose(mean_magnitudes(of_classes(values)), values)


def test_activity_of_one_latent_for_each_class_and_of_all_for_every_class():
    own, every = (activity(of_classes(values)) for values in (np.eye(4), np.ones((4, 4))))
    assert {"active": 0.25, "most": 0.25, "overlap": 0.0}.items() <= own.items()
    assert own["effective"] == pytest.approx(1) and own["varying"] == 4
    assert own["effective_share"] == pytest.approx(0.25)
    assert {"active": 1.0, "most": 1.0, "overlap": 1.0}.items() <= every.items()


def test_a_latent_counts_as_on_above_a_share_of_the_largest_of_its_class():
    on = active_latents(np.array([[10.0, 2.0, 0.5], [1.0, 0.0, 0.2]]), 0.1)
    assert on.tolist() == [[True, True, False], [True, False, True]]
    assert mean_overlap(on) == pytest.approx(1 / 3)


def test_the_distinctive_latent_is_not_one_that_all_classes_share():
    assert distinctive_latents(np.array([[9.0, 1.0, 0.0], [9.0, 0.0, 0.5]])) == [1, 2]


def test_class_names_are_those_of_the_dataset_or_numbers():
    made = of_classes(np.eye(2))
    assert class_names(made, {"made": ["a", "b"]}) == ["a", "b"]
    assert class_names(made, {"other": ["a", "b"]}) == class_names(made) == ["0", "1"]


THREE = SimpleNamespace(latent=3)


class TwoHalves(nn.Module):
    levels = (1, 2)

    def forward(self, z):
        return z, {}


def halves():
    """Images of two rows of pixels: the first is the class and the first latent, the second not."""
    rng = np.random.default_rng(0)
    classes = np.arange(N) % 2
    z = np.stack([np.where(classes, 0.9, 0.1), *rng.uniform(0, 1, (2, N))], 1)

    def decode(w):
        top = (w[:, :1] > 0.5).float().expand(-1, 8)
        low = w[:, 1:2].clamp(0, 1).expand(-1, 8) * 0.1
        return torch.stack([top, low], 1).repeat_interleave(4, 1)[:, None]  # (B, 1, 8, 8)

    codes = torch.tensor(z, dtype=torch.float32)
    model = SimpleNamespace(
        mapping=TwoHalves(), decode_latents=decode, posterior_mean=decode_back, sizes=THREE
    )
    data = Rows(decode(codes).numpy(), classes[:, None], ("class",))
    return SimpleNamespace(model=model, data=data)


def decode_back(x):
    """The codes of images that `halves` drew."""
    return torch.stack([x[:, 0, 0, 0] * 0.8 + 0.1, x[:, 0, 7, 0] * 10, x[:, 0, 7, 1]], 1)


@pytest.mark.parametrize("lower", [0.05, 0.3])
def test_only_the_level_that_holds_the_class_changes_it(monkeypatch, lower):
    said = SimpleNamespace(nats=np.array([2.0, lower, 0.0]))
    monkeypatch.setattr("untwine.scoring.latents.run_latents", lambda run: said)
    found = levels(halves(), examples=100)
    assert found["taking part"] == (lower >= 0.1)
    assert ("lower class" in found) == (lower >= 0.1)
    assert found["class by level 0"] == pytest.approx(0.5, abs=0.15)
    assert found["class by level 1"] == 0.0
    assert found["pixels by level 0"] > 10 * found["pixels by level 1"] > 0


def test_levels_lie_side_by_side_and_a_plain_code_is_one():
    split, plain = (
        SimpleNamespace(mapping=mapping, sizes=THREE) for mapping in (TwoHalves(), nn.Identity())
    )
    assert level_slices(split) == [slice(0, 1), slice(1, 3)]
    assert level_slices(plain) == [slice(0, 3)]


def evidence():
    """Two models, the first with two numbers of latents, scored at two sizes."""
    settings = [("vae", 2, "2"), ("vae", 8, "8"), ("other", 4, "")]
    rows = [
        {
            "model": model,
            "value": value,
            "seed": seed,
            "run": f"{model}{latent}",
            "a.x at 10": 0.5 + latent / 100 + seed / 50,
            "a.x at 50": 0.7 + latent / 100,
            "base": 0.6,
            "s by level 0": 0.4,
            "s by level 1": 0.1,
        }
        for model, latent, value in settings
        for seed in (0, 1)
    ]
    table = pd.DataFrame(rows)
    runs = {f"{m}{n}": SimpleNamespace(latent=n) for m, n, _ in settings}
    return SimpleNamespace(
        table=lambda study: table,
        has=lambda study, description: description in set(table["model"]),
        select=lambda study, description: table[table["model"] == description],
        runs=lambda study: runs,
        heading=lambda study: "made-up data",
    )


def test_numbers_of_rows_are_read_from_the_names_of_scores():
    assert row_counts(evidence().table("s"), "a.x at") == [10, 50]
    assert row_counts(evidence().table("s"), "x at") == []


def test_accuracy_by_size_has_a_line_for_each_model_that_is_there():
    runs = {"A": "vae", "B": "other", "C": "missing"}
    (section,) = sizes(evidence(), study="s", score="a.x at", runs=runs, base="base")
    (axis,) = section.figure.axes
    assert {text.get_text() for text in axis.get_legend().get_texts()} == {
        "A",
        "B",
        "majority class",
    }
    line = axis.containers[1].lines[0]
    assert line.get_xdata().tolist() == [10, 50]
    assert line.get_ydata() == pytest.approx([0.55, 0.74])


def test_accuracy_by_latents_has_a_panel_for_each_label_and_size_that_is_there():
    labels = {"X": ["a.y at", "a.x at"], "Y": "a.y at"}
    base = {"X": ["none", "base"]}
    how = {"varied": "vae", "fixed": "other", "labels": labels, "rows": [10, 50, 99]}
    (section,) = widths(evidence(), study="s", base=base, **how)
    shown = section.figure.axes
    assert [axis.get_title() for axis in shown] == ["X, 10 rows", "X, 50 rows"]
    assert shown[1].containers[0].lines[0].get_ydata() == pytest.approx([0.72, 0.78])
    assert [line.get_ydata()[0] for line in shown[1].lines[1:]] == pytest.approx([0.74, 0.6])


def test_curves_join_the_numbers_of_a_model_and_stars_one_without():
    how = {"x": "a.x at 10", "y": ["a.x at 50"], "models": ["vae", "other"], "better": "up"}
    (section,) = curves(evidence(), study="s", **how)
    (axis,) = section.figure.axes
    curve, star = (container.lines[0] for container in axis.containers)
    assert curve.get_xdata() == pytest.approx([0.53, 0.59])
    assert (curve.get_marker(), star.get_marker()) == ("o", "*")
    assert [text.get_text() for text in axis.texts] == ["2", "8"]
    assert "up is better" in section.sentence


def test_levels_are_bars_from_the_highest():
    (section,) = by_level(evidence(), study="s", runs="vae", scores={"S": "s by level"})
    (axis,) = section.figure.axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([0.4, 0.1])
