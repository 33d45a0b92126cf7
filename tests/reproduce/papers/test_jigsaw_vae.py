"""What the reproduction of Jigsaw-VAE measures and shows."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import untwine
from untwine.data.derived import subset
from untwine.data.opening import reopen_with
from untwine.datasets.coloured_mnist import COLOURS
from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.parts.defaults import NoCorruption
from untwine.registry import datasets
from untwine.reproduce.claims import claims_of
from untwine.reproduce.claims import test_claim as verdict_on
from untwine.reproduce.exhibits.pictures import samples
from untwine.reproduce.items import SCALES, plan_study, read_paper
from untwine.reproduce.papers.jigsaw_vae.exhibits import (
    feature_shares,
    interpolations,
    profile,
    reconstructions,
)
from untwine.reproduce.papers.jigsaw_vae.measures import (
    abruptness,
    colour_shares,
    colours,
    feature_classifier,
    feature_labels,
    features,
    interpolate,
    learning,
    nearest_colour,
    path_ends,
    paths,
    recoloured,
)
from untwine.reproduce.registry import measure
from untwine.slots import Corruption

WANTED = {"Female": ["not Male", "female"], "Eyeglasses": ["Eyeglasses"]}


class FixedModel:
    """A model whose clusters and reconstructions are functions of the image."""

    def __init__(self, assign, reconstruct=None):
        self.assign, self.reconstruct = assign, reconstruct
        self.corruption = NoCorruption(None)


def finished(model, text):
    data = untwine.dataset(text)
    entry, given = datasets.parse(text)
    spec = SimpleNamespace(data=datasets.choose(entry.name, **given), seed=0)
    return SimpleNamespace(model=model, data=data, spec=spec)


def test_clusters_by_colour_fail_where_all_digits_have_one():
    found = colours(finished(FixedModel(nearest_colour), "coloured-mnist(of=digits)"))
    assert found["multi"] == pytest.approx(1)
    assert found["median"] == found["highest"] == 0
    assert "median, altered" not in found


def test_the_median_is_over_ten_colours_and_altered_images_are_altered():
    class Black(Corruption):
        def corrupt(self, x):
            return 0 * x, x

    model = FixedModel(lambda x: (x[:, 0].mean((1, 2)) * 20).long())
    model.corruption = Black()
    found = colours(finished(model, "coloured-mnist(of=digits)"))
    each = [found[f"single {k}"] for k in range(10)]
    assert found["median"] == pytest.approx(np.median(each)) and found["lowest"] == min(each)
    assert found["multi, altered"] == found["median, altered"] == 0 < found["multi"]


def test_colours_are_told_of_coloured_digits_alone():
    with pytest.raises(DataError, match="not of digits"):
        colours(finished(FixedModel(None), "digits"))


def test_each_colour_is_nearest_to_itself_at_any_brightness():
    flat = torch.tensor(COLOURS).float().div(255)[:, :, None, None]
    for light in (1.0, 0.3):
        assert nearest_colour(light * flat.expand(-1, -1, 4, 4)).tolist() == list(range(10))


def test_a_copy_keeps_the_colour_and_recovers_none():
    found = recoloured(finished(FixedModel(None, lambda x: x), "coloured-mnist(of=digits)"))
    assert found == {"recovered": 0.0, "kept": 1.0, "kept or nearest": 1.0}


def test_orange_counts_as_nearly_yellow():
    orange = torch.tensor(COLOURS[8])[:, None, None] / 255
    data = "coloured-mnist(of=digits)"
    found = recoloured(finished(FixedModel(None, lambda x: orange.expand_as(x)), data))
    assert (found["kept"], found["kept or nearest"]) == (0.0, 1.0)
    eights = (untwine.dataset("digits(split=test)").factors.table == 8).sum()
    assert found["recovered"] * 297 == pytest.approx(eights, rel=0.2)


def test_data_are_varied_where_the_parameter_is():
    data = datasets.choose("coloured-mnist", of="digits")
    test = reopen_with(data, split="test", colours="single", colour=3)
    assert len(test) == 297
    assert set(test.factors.levels_at(np.arange(297))[:, 1]) == {3}
    with pytest.raises(UnknownNameError, match="splitt"):
        reopen_with(data, splitt="test")


def test_a_feature_may_be_the_absence_of_a_factor():
    data = untwine.from_arrays(
        np.zeros((3, 8, 8), np.uint8), np.array([[0, 1], [1, 0], [1, 1]]), names=("Male", "hat")
    )
    found = feature_labels(data.factors, {"F": ["not Male"], "H": ["cap", "hat"]}, np.arange(3))
    assert found.tolist() == [[1, 1], [0, 0], [0, 1]]
    with pytest.raises(UnknownNameError, match="cap"):
        feature_labels(data.factors, {"H": ["cap"]}, np.arange(3))


@pytest.fixture(scope="module")
def bright():
    """Images of 16 pixels that are bright in the upper half, or dark: one feature, half of them."""
    rng = np.random.default_rng(0)
    present = rng.integers(2, size=200)
    images = rng.integers(60, size=(200, 16, 16, 3)).astype(np.uint8)
    images[present == 1, :8] += 180
    return untwine.from_arrays(images, present[:, None], names=("bright",))


BRIGHT = {"Bright": ["bright"]}


def test_samples_that_all_show_a_feature_are_as_far_off_as_it_is_rare(bright):
    share = 100 * bright.factors.levels_at(np.arange(200))[:, 0].mean()
    all_bright = bright.take(bright.factors.sample_indices(1, np.random.default_rng(0), {0: 1}))
    model = SimpleNamespace(
        sample=lambda n, seed: all_bright.expand(n, -1, -1, -1), reconstruct=lambda x: x
    )
    found = features(SimpleNamespace(model=model, data=bright), features=BRIGHT)
    assert found["Bright in samples"] == 100 and found["accuracy"] > 95
    assert found["Bright"] == found["average"] == pytest.approx(100 - share)
    assert found["Bright in data"] == pytest.approx(share)
    assert found["Bright, matched"] == found["average, matched"] == pytest.approx(100 - share)
    assert found["error"] == 0 and found["auc of Bright"] > 0.95
    assert found["average of reconstructions, matched"] == found["average of real, matched"]


def test_blur_is_told_by_reconstructions(bright):
    grey = SimpleNamespace(
        sample=lambda n, seed: bright.take(range(n)), reconstruct=torch.zeros_like
    )
    found = features(SimpleNamespace(model=grey, data=bright), features=BRIGHT)
    shown = found["Bright in reconstructions"]
    assert shown in (0, 100) and found["average"] < 3
    assert found["average of reconstructions"] == pytest.approx(
        abs(shown - found["Bright in data"])
    )


def test_held_out_images_are_in_neither_model_nor_detector(bright):
    train, test = subset(bright, np.arange(150)), subset(bright, np.arange(150, 200))
    both = feature_classifier(replace(train, evaluation=test), BRIGHT)
    assert len(both.images) == 50 and both.half == 25
    held = {image.tobytes() for image in test.take(range(50)).numpy()}
    assert {image.tobytes() for image in both.images} == held
    assert both.shares == pytest.approx(train.factors.table.mean(0))


def test_the_classifier_is_the_same_for_all_runs(bright):
    assert (
        feature_classifier(bright, BRIGHT).classifier
        is feature_classifier(bright, BRIGHT).classifier
    )
    with pytest.raises(DataError, match="factors"):
        feature_classifier(replace(bright, factors=None), BRIGHT)


def test_only_pairs_that_still_show_the_feature_count(bright):
    """A model that copies keeps all pairs; one that forgets keeps none."""
    copies = SimpleNamespace(
        posterior_mean=lambda x: x.flatten(1),
        decode_latents=lambda z: z.unflatten(1, (3, 16, 16)),
    )
    ask = partial(paths, feature="Bright", features=BRIGHT, pairs=12)
    found = ask(SimpleNamespace(model=copies, data=bright))
    assert found["kept"] >= 10 and 1 / 6 < found["abruptness"] <= 1
    forgets = SimpleNamespace(
        posterior_mean=copies.posterior_mean,
        decode_latents=lambda z: 0 * copies.decode_latents(z),
    )
    lost = ask(SimpleNamespace(model=forgets, data=bright))
    assert lost["kept"] == 0 and "abruptness" not in lost


def test_abruptness_lies_between_even_and_at_once():
    assert abruptness(np.array([[1.0, 0.9, 0.1, 0.0]])) == pytest.approx(0.8)
    assert abruptness(np.ones((2, 7))) == pytest.approx(1 / 6)


def test_a_path_begins_and_ends_at_reconstructions_and_its_middle_is_between():
    data = untwine.dataset("faces", size=32, count=50)
    model = untwine.build("vae", data, latent=3, network="mlp")
    x = data.take([0, 1, 2, 3])
    path = interpolate(model, x[:2], x[2:], 5)
    assert path.shape == (2, 5, 3, 32, 32)
    torch.testing.assert_close(path[:, 0], model.reconstruct(x[:2]))
    torch.testing.assert_close(path[:, -1], model.reconstruct(x[2:]))
    middle = (model.posterior_mean(x[:2]) + model.posterior_mean(x[2:])) / 2
    torch.testing.assert_close(path[:, 2], model.decode(middle))


def test_paths_lead_from_the_feature_to_its_absence(bright):
    classifier = feature_classifier(bright, BRIGHT)
    first, last = path_ends(classifier, "Bright", 5)
    assert (classifier.probabilities(first) > 0.5).all()
    assert not (classifier.probabilities(last) > 0.5).any()
    model = untwine.build("vae", bright, latent=2, network="mlp")
    found = paths(
        SimpleNamespace(model=model, data=bright), feature="Bright", features=BRIGHT, pairs=5
    )
    assert found["pairs"] == 5 and found["real"] > 0.9
    assert "abruptness" not in found and found["kept"] <= 5  # too few to tell
    assert found["lost"] == pytest.approx(found["real"] - found["at 1"])
    with pytest.raises(DataError, match="with and without"):
        path_ends(classifier._replace(present=0 * classifier.present), "Bright", 5)


class MadeUpEvidence:
    """Evidence of one untrained model, of the name `here`."""

    def __init__(self, text, table=None, **how):
        data = untwine.dataset(text)
        self.run = finished(untwine.build("vae", data, latent=2, network="mlp", **how), text)
        self.rows = table

    def has(self, study, description):
        return description == "here"

    def open_model(self, study, description, seed):
        return self.run

    def heading(self, study):
        return "data"

    def select(self, study, description):
        return self.rows


RUNS = {"Ours": "here", "Theirs": "elsewhere"}


def test_samples_are_shown_after_the_data_and_absent_models_are_left_out():
    shown = list(
        samples(MadeUpEvidence("digits(size=16)"), study="s", runs=RUNS, rows=2, columns=3)
    )
    assert [section.title for section in shown] == ["Data", "Ours"]
    assert shown[1].picture.shape == (4 * 34, 4 * 52, 3)  # images of 16 pixels, drawn with 64


def test_reconstructions_have_a_row_for_the_images_and_one_for_each_model():
    evidence = MadeUpEvidence("coloured-mnist(of=digits)")
    data = {"One": {"split": "test", "colours": "single", "colour": 0}}
    (shown,) = reconstructions(evidence, study="s", runs=RUNS, data=data, columns=4)
    assert shown.picture.shape == (2 * 58, 2 * 118, 3)
    assert not shown.picture[:56, :56, 1:].any() and shown.picture[:56, :56, 0].any()  # red


def test_interpolations_show_paths_and_the_probability_along_them():
    import pandas as pd

    columns = [f"paths.at {step}" for step in (1, 2, 3)]
    table = pd.DataFrame([[0.9, 0.5, 0.1, 1.0]], columns=[*columns, "paths.real"])
    evidence = MadeUpEvidence("faces(size=32, count=150)", table)
    shown = list(
        interpolations(
            evidence,
            study="s",
            runs=RUNS,
            feature="Eyeglasses",
            features=WANTED,
            steps=3,
            pairs=1,
        )
    )
    assert shown[0].picture.shape == (2 * 32, 2 * 168, 3)  # two real images and three between them
    line = shown[1].figure.axes[0].lines[0]
    assert line.get_ydata().tolist() == [0.9, 0.5, 0.1]


def test_a_profile_is_a_line_through_the_means_of_scores():
    import pandas as pd

    table = pd.DataFrame({"a": [0.0, 0.5], "b": [0.25, 0.25]})
    scores = {"first": "a", "second": "2 * b"}
    evidence = MadeUpEvidence("digits(size=16)", table)
    (shown,) = profile(evidence, study="s", runs=RUNS, scores=scores, title="T", y="NMI")
    axis = shown.figure.axes[0]
    assert axis.lines[0].get_ydata().tolist() == [0.25, 0.5]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["first", "second"]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["Ours"]


def test_shares_of_features_stand_beside_those_of_the_paper():
    import pandas as pd

    row = {
        "features.Bald in data": 2.0,
        "features.Bald in real": 1.0,
        "features.Bald in samples": 0.5,
        "features.accuracy": 98.0,
        "features.average of real": 1.0,
    }
    evidence = MadeUpEvidence("digits(size=16)", pd.DataFrame([row]))
    (shown,) = feature_shares(evidence, study="s", runs=RUNS, paper={"Bald": 2.28})
    assert shown.rows == (("Bald", "2.28", "2", "1", "0.5"),)
    assert "98.0 %" in shown.sentence


@pytest.mark.parametrize("scale", SCALES)
def test_models_are_written_as_runs_are_called(scale):
    for body in read_paper("jigsaw-vae")["studies"].values():
        for name in body["scales"][scale].get("models") or body["models"]:
            assert name == "+".join(sorted(name.split("+"))), "a table would leave its row out"


def test_the_measures_are_known_by_name():
    for function in (colours, recoloured, features, paths, learning):
        assert measure[function.__name__] is function


def test_shares_of_colours_in_samples_are_compared_with_those_of_the_data():
    run = finished(FixedModel(None), "coloured-mnist(of=digits, colours=shares, shares=3,1)")
    levels = run.data.factors.levels_at(np.arange(len(run.data)))[:, 1]
    assert np.bincount(levels).tolist() == [1125, 375]
    run.model.sample = lambda n, seed: run.data.take(np.flatnonzero(levels == 0)[:n])
    found = colour_shares(run, samples=100)
    assert found["red in data"] == 75 and found["red in samples"] == 100 and found["read"] == 1
    assert found["average"] == 25 and found["green in samples"] == 0


def test_shares_need_a_weight():
    with pytest.raises(ParameterError, match="1 to 10 weights"):
        untwine.dataset("coloured-mnist(of=digits, colours=shares, shares=0,0)")


def test_the_error_is_followed_by_tenths_of_the_training():
    rows = [{"step": step, "nll": 100.0 - step} for step in range(5, 105, 5)]
    found = learning(SimpleNamespace(history=rows))
    assert len(found) == 10 and found["tenth 1"] == 92.5 and found["tenth 10"] == 2.5
    few = learning(SimpleNamespace(history=[{"step": 10, "nll": 3.0}, {"step": 20, "nll": 1.0}]))
    assert few == {"tenth 5": 3.0, "tenth 10": 1.0}


class MadeUpScores:
    """Evidence of scores by the first word of a description, nearly the same for each seed."""

    def __init__(self, **scores):
        self.scores = scores

    def select(self, study, description, data=""):
        import pandas as pd

        first = description if isinstance(description, str) else description[0]
        mean = self.scores["jigsaw" if "jigsaw" in first else "vae"]
        rows = [
            {"data": "d", "seed": seed, "features.error": mean * (1 + seed / 1e4)}
            for seed in range(5)
        ]
        return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("error", "verdict"), [(0.015, "contradicted"), (0.00405, "supported"), (0.003, "supported")]
)
def test_a_higher_error_speaks_against_equal_reconstructions(error, verdict):
    (claim,) = [c for c in claims_of(read_paper("jigsaw-vae")) if c.name == "error-jigsaw"]
    assert verdict_on(MadeUpScores(vae=0.004, jigsaw=error), claim).verdict == verdict


def test_claims_have_a_place_or_are_ours_and_are_tested_on_seeds_that_chose_nothing():
    paper = read_paper("jigsaw-vae")
    claims = list(claims_of(paper))
    assert all(claim.place for claim in claims)
    for name in paper["studies"]:
        runs = plan_study(paper, name, "laptop", {}, stand_ins=True).runs
        assert min(run.seed for run in runs) == 100
        assert len({run.steps for run in runs}) == 1, "equal steps for all models of a study"
