"""Held-out data, patience, schedules, clipping and optimisers."""

import inspect
import json
import math
import signal
import subprocess
import sys
from dataclasses import asdict, fields

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import untwine
from untwine import train
from untwine.cli.main import app
from untwine.errors import DataError, ParameterError
from untwine.optimisers import OPTIMISERS, SCHEDULES, FusedAdam, Training, make_optimiser
from untwine.registry import datasets
from untwine.runs.describe import train_command
from untwine.runs.directory import read_scores
from untwine.spec import Run, split_data
from untwine.study.document import TRAINING

QUICK = {"steps": 40, "batch": 16, "lr": 1e-3, "quiet": True}


@pytest.fixture(scope="module")
def vectors():
    return untwine.from_arrays(np.random.default_rng(0).standard_normal((200, 5)))


def make(data, model="vae"):
    return untwine.build(model, data, latent=2, network="mlp", width=8, depth=1)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_every_way_in_takes_the_same_options_with_the_same_defaults():
    defaults = asdict(Training())
    for function in (untwine.fit, untwine.plan):
        signature = inspect.signature(function).parameters
        assert {name: signature[name].default for name in defaults} == defaults
    assert {*defaults, "epochs"} <= {*TRAINING}
    text = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    assert all(f"--{name.replace('_', '-')}" in text for name in [*defaults, "epochs"])


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_the_own_adam_is_torchs_bit_for_bit(weight_decay):
    torch.manual_seed(0)
    a, b = (nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3), nn.Linear(3, 3)) for _ in "ab")
    b.load_state_dict(a.state_dict())
    own = make_optimiser("adam", a.parameters(), 1e-2, weight_decay=weight_decay)
    torchs = torch.optim.Adam(b.parameters(), 1e-2, weight_decay=weight_decay, fused=True)
    assert isinstance(own, FusedAdam)
    for step in range(30):
        x = torch.randn(4, 7)
        for model, optimiser in ((a, own), (b, torchs)):
            optimiser.zero_grad(set_to_none=True)
            layers = model if step % 2 else model[:2]  # the last layer gets no gradient
            layers(x).square().sum().backward()
            optimiser.step()
        assert all(map(torch.equal, a.parameters(), b.parameters()))
    ours, theirs = own.state_dict()["state"], torchs.state_dict()["state"]
    assert ours.keys() == theirs.keys()
    for number, moments in ours.items():
        assert all(torch.equal(value, theirs[number][key]) for key, value in moments.items())


def test_without_the_fused_kernel_torchs_adam_is_used(vectors, monkeypatch):
    fused = make(vectors)
    untwine.fit(fused, vectors, **QUICK)
    monkeypatch.delattr(torch, "_fused_adam_")
    plain = make(vectors)
    assert isinstance(make_optimiser("adam", plain.parameters(), 1e-3), torch.optim.Adam)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_trains_with_torchs_defaults(name, vectors):
    model = make(vectors)
    before = weights(model)
    untwine.fit(model, vectors, optimiser=name, **{**QUICK, "steps": 3})
    assert not torch.equal(weights(model), before)
    optimiser = make_optimiser(name, model.parameters(), 1e-3)
    assert name == "adam" or type(optimiser).__name__ == OPTIMISERS[name]


def test_rates_rise_and_fall():
    def rates(**options):
        return [Training(**options).rate(step, 10) for step in range(10)]

    assert rates() == [1.0] * 10
    assert rates(warm_up=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    for schedule in ("cosine", "linear"):
        falling = rates(schedule=schedule)
        assert falling[0] == 1 and falling == sorted(falling, reverse=True) and falling[-1] > 0
    assert Training(schedule="plateau").rate(3, 10, halvings=2) == 0.25


def test_the_history_tells_a_changing_rate(vectors):
    history = untwine.fit(make(vectors), vectors, schedule="cosine", **QUICK)
    assert [row["lr"] for row in history] == sorted((row["lr"] for row in history), reverse=True)
    assert "lr" not in untwine.fit(make(vectors), vectors, **QUICK)[0]


def test_a_plateau_halves_the_rate(vectors, monkeypatch):
    losses = iter([3.0, *[4.0] * 5, 2.0, *[2.5] * 5, 2.0])
    monkeypatch.setattr(
        train.Validation, "__call__", lambda self: {"validation_loss": next(losses)}
    )
    options = {**QUICK, "steps": 130, "schedule": "plateau", "validation": 0.1}
    history = untwine.fit(make(vectors), vectors, **options)
    assert [round(row["lr"] / 1e-3, 3) for row in history] == [1.0] * 6 + [0.5] * 6 + [0.25]


def test_gradients_are_clipped_to_a_norm(vectors):
    model = make(vectors)
    before = weights(model)
    untwine.fit(model, vectors, optimiser="sgd", clip=0.5, **{**QUICK, "steps": 1, "lr": 1.0})
    assert (weights(model) - before).norm() == pytest.approx(0.5, rel=1e-4)


def test_epochs_are_passes_through_the_training_data(vectors):
    assert untwine.fit(make(vectors), vectors, epochs=3, batch=16, quiet=True)[-1]["step"] == 36
    run = untwine.plan("vae", "digits", epochs=2, batch=100, validation=0.2)
    assert run.steps == 24 and run == untwine.plan(
        "vae", "digits", steps=24, batch=100, validation=0.2
    )


def test_a_share_is_held_out_by_seed():
    data = untwine.dataset("digits")
    rest, apart = untwine.split_randomly(data, 0.1, seed=3)
    again = untwine.split_randomly(data, 0.1, seed=3)[1]
    assert torch.equal(apart.take([0, 5]), again.take([0, 5]))
    assert sorted(torch.cat([rest.source.index, apart.source.index]).tolist()) == [*range(1500)]
    other = untwine.split_randomly(data, 0.1, seed=4)[1]
    assert not torch.equal(apart.source.index, other.source.index)
    assert np.array_equal(
        apart.factors.levels_at(np.arange(5)),
        data.factors.levels_at(apart.source.index[:5].numpy()),
    )


def test_groups_stay_together():
    groups = np.repeat(np.arange(20), 10)
    data = untwine.from_arrays(np.random.default_rng(0).random((200, 4)), groups=groups)
    rest, apart = untwine.split_randomly(data, 0.2)
    assert len(apart) == 40 and not {*rest.groups.tolist()} & {*apart.groups.tolist()}
    shared = untwine.dataset("grouped(of=sprites(size=16), by=scale, members=4)")
    history = untwine.fit(make(shared, "ml-vae"), shared, validation=0.2, **QUICK)
    assert math.isfinite(history[-1]["validation_loss"])


@pytest.mark.parametrize("share", [0.0, 1.0, 0.999])
def test_shares_that_leave_nothing_are_refused(share):
    data = untwine.from_arrays(np.zeros((5, 3)))
    with pytest.raises((ParameterError, DataError), match=r"hold out|held out"):
        untwine.split_randomly(data, share)


def test_data_with_an_order_of_its_own_says_that_it_cannot_be_split():
    data = untwine.dataset("mixed(first=sprites(size=16), second=sprites(size=16))")
    with pytest.raises(DataError, match="draws its batches in its own way"):
        untwine.split_randomly(data, 0.1)


def test_validation_is_measured_on_held_out_examples_with_the_same_noise(vectors):
    model = make(vectors)
    rest, apart = untwine.split_randomly(vectors, 0.25, seed=1)
    options = {**QUICK, "lr": 1e-30, "seed": 1}
    rows = untwine.fit(model, rest, validation=apart, **options)
    line = train.format_row(model, rows[-1], 1.0)
    assert f"validation:  elbo {rows[-1]['validation_elbo']:.4g}  loss " in line
    share = untwine.fit(make(vectors), vectors, validation=0.25, **options)
    assert [r["validation_elbo"] for r in rows] == [r["validation_elbo"] for r in share]
    assert rows[0]["validation_loss"] == rows[-1]["validation_loss"]  # the weights stand still
    expected = -rows[0]["validation_nll"] - rows[0]["validation_kl"]
    assert rows[0]["validation_elbo"] == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        elbos = [model.elbo(apart.take(range(len(apart))), seed=seed).item() for seed in range(30)]
    assert abs(np.mean(elbos) - expected) < 6 * np.std(elbos)


def test_validation_leaves_the_training_alone(vectors):
    rest, apart = untwine.split_randomly(vectors, 0.25)
    plain, watched = make(rest), make(rest)
    untwine.fit(plain, rest, **QUICK)
    untwine.fit(watched, rest, validation=apart, on_row=lambda row: torch.rand(1), **QUICK)
    assert torch.equal(weights(plain), weights(watched))


def test_patience_stops_and_leaves_the_best_weights(vectors, monkeypatch):
    losses, seen = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.0]), []

    def measure(self):
        seen.append(weights(self.model))
        return {"validation_loss": next(losses)}

    monkeypatch.setattr(train.Validation, "__call__", measure)
    model = make(vectors)
    options = {**QUICK, "steps": 500, "patience": 3, "validation": 0.1}
    history = untwine.fit(model, vectors, **options)
    assert [row["step"] for row in history] == [10, 20, 30, 40, 50]
    assert torch.equal(weights(model), seen[1])


def test_overfitting_is_noticed():
    data = untwine.from_arrays(np.random.default_rng(0).standard_normal((40, 30)))
    model = untwine.build("vae", data, latent=10, network="mlp", variance=0.01)
    options = {"steps": 3000, "batch": 16, "lr": 3e-3, "validation": 0.3, "patience": 5}
    history = untwine.fit(model, data, quiet=True, **options)
    best = min(row["validation_loss"] for row in history)
    assert history[-1]["step"] < 3000 and history[-1]["loss"] < best


def test_every_row_is_handed_over_and_what_it_raises_is_a_warning(vectors):
    rows = []
    history = untwine.fit(make(vectors), vectors, on_row=rows.append, **{**QUICK, "steps": 25})
    assert rows == history and [row["step"] for row in rows] == [10, 20, 25]

    def broken(row):
        raise OSError("disk full")

    with pytest.warns(RuntimeWarning) as warned:
        same = untwine.fit(make(vectors), vectors, on_row=broken, **{**QUICK, "steps": 25})
    assert same == history
    texts = [f"on_row failed at step {step}: OSError: disk full" for step in (10, 20, 25)]
    assert [str(warning.message) for warning in warned] == texts


def test_options_count_in_the_hash_only_when_they_are_set():
    base = untwine.plan("vae", "digits")
    plain = untwine.plan("vae", "digits", validation=0, patience=0, schedule="constant", clip=0)
    assert plain == base and not {f.name for f in fields(Training)} & base.to_json().keys()
    others = [
        {"validation": 0.1},
        {"validation": "test"},
        {"validation": 0.1, "patience": 3},
        {"optimiser": "adamw"},
        {"weight_decay": 0.1},
        {"clip": 1},
        {"schedule": "cosine"},
        {"warm_up": 10},
    ]
    runs = [untwine.plan("vae", "digits", **options) for options in others]
    assert len({base.hash, *(run.hash for run in runs)}) == 9
    for run in runs:
        assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run
        assert all(
            f"--{name.replace('_', '-')}" in train_command(run) for name in run.training.changed()
        )


def test_a_named_split_is_validated_on():
    run = untwine.plan("vae", "digits", validation="test")
    data, held_out = split_data(run, untwine.dataset("digits"))
    assert (len(data), len(held_out)) == (1500, 297)
    for split, sentence in (("train", "is what is trained on"), ("tst", "must be")):
        with pytest.raises(ParameterError, match=sentence):
            untwine.plan("vae", "digits", validation=split)
    with pytest.raises(DataError, match="sprites has no splits; hold out a share"):
        untwine.plan("vae", "sprites", validation="test")


EVERYTHING = {
    "settings": ["mlp.width=8", "mlp.depth=1", "factor-vae.width=8"],
    "network": "mlp",
    "latent": 3,
    "batch": 16,
    "steps": 100,
    "lr": 1e-2,
    "validation": 0.1,
    "patience": 4,
    "weight_decay": 0.01,
    "clip": 1.0,
    "warm_up": 7,
}
VARIANTS = [
    *({"optimiser": name} for name in OPTIMISERS),
    *({"schedule": name} for name in SCHEDULES[1:]),
]


@pytest.mark.parametrize("options", VARIANTS, ids=lambda o: next(iter(o.values())))
def test_an_interrupted_run_with_all_options_resumes_exactly(tmp_path, options, monkeypatch):
    spec = untwine.plan("factor-vae", "digits(size=16)", **EVERYTHING, **options)
    results = []
    for out, interrupts in (("whole", ()), ("parts", (13, 55))):
        rows = []
        for step in interrupts:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                record = train.State.record

                def stop_at(self, terms, record=record, step=step):
                    record(self, terms)
                    if self.step == step:
                        raise KeyboardInterrupt

                patch.setattr(train.State, "record", stop_at)
                untwine.run(
                    spec, tmp_path / out, checkpoint_every=6, on_row=rows.append, quiet=True
                )
        path = untwine.run(spec, tmp_path / out, checkpoint_every=6, on_row=rows.append, quiet=True)
        names = ("model.safetensors", "history.csv")
        history = list(untwine.open_run(path).history)
        assert list({row["step"]: row for row in rows}.values()) == history
        results.append([(path / name).read_bytes() for name in names])
    assert results[0] == results[1]


KILLED = """
import os, signal, sys, untwine
from untwine.train import State
record = State.record
def die(self, terms):
    record(self, terms)
    if self.step == 40:
        os.kill(os.getpid(), signal.SIGKILL)
State.record = die
spec = untwine.plan("factor-vae", "digits(size=16)", **{options!r})
untwine.run(spec, sys.argv[1], checkpoint_every=6, threads=1, quiet=True)
"""


def test_a_killed_run_with_all_options_ends_with_the_same_bytes(tmp_path):
    options = {**EVERYTHING, "optimiser": "adamw", "schedule": "plateau"}
    spec = untwine.plan("factor-vae", "digits(size=16)", **options)
    code = KILLED.format(options=options)
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "parts"], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    results = []
    for out in ("whole", "parts"):
        path = untwine.run(spec, tmp_path / out, checkpoint_every=6, threads=1, quiet=True)
        results.append(
            [(path / name).read_bytes() for name in ("model.safetensors", "history.csv")]
        )
    assert results[0] == results[1]


def test_the_estimators_constant_is_left_out_where_total_correlation_is_shown(vectors):
    model = make(vectors, "beta-tcvae")
    row = untwine.fit(model, vectors, validation=0.1, **QUICK)[-1]
    shown = model.objective.without_constants(row)
    constant = (2 - 1) * math.log(len(vectors))
    assert row["tc"] - shown["tc"] == pytest.approx(constant)
    assert row["validation_tc"] - shown["validation_tc"] == pytest.approx(constant)
    assert {k: v for k, v in row.items() if not k.endswith("tc")} == {
        k: v for k, v in shown.items() if not k.endswith("tc")
    }
    assert f"tc {shown['tc']:.4g}  " in train.format_row(model, row, 1.0)


def test_without_their_constants_the_parts_of_the_kl_add_up(vectors):
    model = untwine.build("beta-tcvae", vectors, latent=4, alpha=2, gamma=2, beta=2)
    terms = model.objective.terms
    assert sum(terms[name].constant for name in ("mi", "tc", "dw")) == pytest.approx(0)
    unbiased = untwine.build("beta-tcvae", vectors, latent=4, weighting="mss")
    assert unbiased.objective.terms["tc"].constant == 0


def test_datasets_with_a_split_are_those_that_can_name_one():
    assert all("split" in datasets[name].parameters for name in ("digits", "mnist", "celeba"))


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    """A run that held out a tenth of its data."""
    out = tmp_path_factory.mktemp("validated")
    options = {**QUICK, "validation": 0.1, "patience": 3, "width": 8, "depth": 1, "latent": 3}
    return untwine.train_run("beta-tcvae", "digits(size=16)", out, network="mlp", **options)


def test_a_run_is_scored_on_its_held_out_examples(validated):
    rest, apart = split_data(validated.spec, validated.data)
    elbo = {
        split: untwine.evaluate_run(validated.path, ["elbo"], n_examples=400, split=split)
        for split in (None, "validation", "training", "all", "test")
    }
    for split, data in ((None, apart), ("validation", apart), ("training", rest)):
        direct = untwine.Representation(validated.model, data, n_examples=400, chunk=16)
        assert float(elbo[split]["elbo"]) == pytest.approx(float(np.mean(direct.elbos)))
    assert len({float(score["elbo"]) for score in elbo.values()}) == 4
    values = elbo[None]["elbo"].values
    assert values["bits_per_dimension"] == pytest.approx(-values["elbo"] / (256 * math.log(2)))
    with pytest.raises(ParameterError, match="split must be"):
        untwine.evaluate_run(validated.path, ["elbo"], split="tests")


def test_splits_do_not_take_each_others_scores(validated):
    path = validated.path
    first = untwine.evaluate_run(path, ["elbo"], n_examples=100, split="training")
    assert read_scores(path)["elbo"]["split"] == "training"
    own = untwine.evaluate_run(path, ["elbo"], n_examples=100)
    assert "split" not in read_scores(path)["elbo"]
    assert own["elbo"] != first["elbo"]


def test_a_run_without_held_out_examples_says_so(tmp_path):
    options = {**QUICK, "steps": 3, "width": 8, "depth": 1}
    trained = untwine.train_run("vae", "sprites(size=16)", tmp_path, network="mlp", **options)
    with pytest.raises(DataError, match="held out no examples"):
        untwine.evaluate_run(trained.path, ["elbo"], split="validation")


def test_the_report_shows_validation_and_the_total_correlation_without_its_constant(validated):
    page = untwine.write_report(validated.path, n_examples=100).read_text()
    assert ">validation<" in page and "random held-out examples" in page
    shown, constant = validated.shown_history(), 2 * math.log(len(validated.data) * 9 // 10)
    for row, stored in zip(shown, validated.history, strict=True):
        assert row["tc"] == pytest.approx(stored["tc"] - constant, abs=1e-2)
        assert row["loss"] == stored["loss"]
    assert f"those of step {validated.history.best_step():,}" in page
