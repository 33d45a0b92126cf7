"""Runs on a machine that never had their data, and runs on other data than their own."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.data import opening
from untwine.errors import DataError, RunError
from untwine.explore import export
from untwine.explore.export import write_copy
from untwine.explore.gallery import Gallery
from untwine.explore.view import RunView
from untwine.runs.directory import open_run, read_scores
from untwine.tools.sealed import read_json, write_json

SMALL = {"network": "mlp", "width": 8, "depth": 1, "latent": 3, "steps": 20, "batch": 8}


def hide_data(trained):
    """The run as it is opened where its data is not."""

    def refuse():
        raise DataError("there is no folder at /photos; name it with --data PLACE")

    return replace(trained, open_data=refuse)


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """A finished run on an array, scored, and the file of the array."""
    monkeypatch.setattr(opening, "MAX_LOADED", 0)
    rng = np.random.default_rng(0)
    file = tmp_path / "numbers.npz"
    images = rng.integers(0, 256, (40, 6, 6), dtype=np.uint8)
    np.savez(file, images=images, factors=rng.integers(0, 3, (40, 2)))
    trained = untwine.train_run("vae", str(file), tmp_path / "runs", quiet=True, **SMALL)
    untwine.evaluate_run(trained.path, ["reconstruction"], n_examples=20)
    return file, trained.path


@pytest.mark.parametrize("kind", ["plain", "clustered", "grouped"])
def test_latents_samples_and_scores_are_those_with_the_data(explored, kind):
    path = explored[1][kind]
    whole = RunView(open_run(path), name=kind)
    alone = RunView(hide_data(open_run(path)), name=kind)
    alone.require_usable()
    with_data, without = whole.summary(), alone.summary()
    assert [one.number for one in without.latents] == [one.number for one in with_data.latents]
    for mine, other in zip(without.latents, with_data.latents, strict=True):
        assert mine.nats == pytest.approx(other.nats, rel=1e-4, abs=1e-6)
        assert (mine.low, mine.high, mine.exact) == (other.low, other.high, other.exact)
    assert without.tile == with_data.tile and without.examples == 0
    start = alone.start_from_prior(0)
    numbers = [one.number for one in without.latents]
    assert start == whole.start_from_prior(0)
    assert alone.decode(start.code) == whole.decode(start.code)
    assert alone.traversals(start.code, numbers, 3) == whole.traversals(start.code, numbers, 3)
    assert alone.factors().scores == whole.factors().scores
    if with_data.clusters:
        clusters = alone.clusters()
        assert sum(cluster.share for cluster in clusters) == pytest.approx(1)
        largest = max(clusters, key=lambda cluster: cluster.share).number
        assert alone.cluster(largest, 0, 2) == whole.cluster(largest, 0, 2)


def test_views_of_examples_say_what_to_type(explored):
    path = explored[1]["plain"]
    view = RunView(hide_data(open_run(path)), name="plain")
    command = f"untwine explore {path.name} --data PLACE"
    assert command in view.summary().missing and command in view.factors().note
    assert view.examples(5, 0) == []
    for call in (
        lambda: view.image(0),
        lambda: view.start_from(0),
        lambda: view.between(0, 1, 3),
        lambda: view.space("pca", 0, 1),
        lambda: view.select([0]),
        lambda: view.reconstructions(3, "worst"),
        view.sheet,
    ):
        with pytest.raises(RunError, match=r"no examples to show.*--data PLACE"):
            call()


def test_curves_need_no_data(numbers):
    file, path = numbers
    curves = Gallery.find([path]).curves(path.name)
    file.unlink()
    alone = Gallery.find([path])
    assert alone.curves(path.name) == curves and curves.training["loss"]
    assert alone.view(path.name).summary().missing


def test_points_are_drawn_over_samples(tmp_path):
    trained = untwine.train_run("vae", "circle", tmp_path, quiet=True, **SMALL)
    view = RunView(hide_data(trained), name="points")
    assert view.decode(view.start_from_prior(0).code).startswith(b"\x89PNG")


def test_an_exported_copy_works_without_the_data(numbers, tmp_path):
    file, path = numbers
    file.unlink()
    copy = write_copy(Gallery.find([path]), tmp_path / "copy", quiet=True)
    text = next(copy.parent.glob("data-*.js")).read_text()
    assert "--data PLACE" in text and "traversals.png" in text and "image.png" not in text


def test_latents_of_an_old_run_are_measured_on_its_samples():
    old = Path(__file__).parents[1] / "fixtures/version-0.1/runs/beta-vae-sprites-458fe4567ec5"
    trained = open_run(old)
    assert trained.model.card is not None and trained.model.card.latents == ()
    summary = RunView(hide_data(trained), name="old").summary()
    assert summary.latents and not any(latent.exact for latent in summary.latents)


# ---- other places and other data ----


def test_the_same_data_at_another_place_is_the_run_s_own(numbers, tmp_path):
    file, path = numbers
    moved = file.rename(tmp_path / "moved.npz")
    with pytest.raises(DataError, match="--data PLACE"):
        untwine.evaluate_run(path, ["reconstruction"], n_examples=20, seed=1)
    before = read_scores(path)
    untwine.evaluate_run(path, ["mig"], n_examples=20, data=str(moved))
    assert {*read_scores(path)} == {*before, "mig"}
    assert open_run(path, data=str(moved)).has_own_data
    assert "not the data" not in untwine.write_report(path, data=str(moved)).read_text()


def test_the_explorer_takes_the_place_of_the_data(numbers, tmp_path, monkeypatch):
    file, path = numbers
    moved, shown = file.rename(tmp_path / "moved.npz"), []
    monkeypatch.setattr(
        export, "write_copy", lambda gallery, to, quiet: shown.append(gallery) or to
    )
    for place in ([], ["--data", str(moved)]):
        words = ["explore", str(path), "--export", str(tmp_path / "copy"), *place]
        assert CliRunner().invoke(app, words).exit_code == 0
    assert [gallery.view(path.name).has_examples for gallery in shown] == [False, True]


def test_other_data_is_scored_and_reported_and_nothing_of_it_stored(numbers, tmp_path, capsys):
    _, path = numbers
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((30, 6, 6), np.uint8))
    before = read_scores(path)
    scores = untwine.evaluate_run(path, ["reconstruction"], n_examples=20, data=str(other))
    assert float(scores["reconstruction"]) != before["reconstruction"]["values"]["squared_error"]
    assert read_scores(path) == before and "not stored" in capsys.readouterr().err
    page = untwine.write_report(path, n_examples=20, data=str(other)).read_text()
    assert "other.npy, which is not the data" in page and read_scores(path) == before
    with pytest.raises(DataError, match="leave it out, or name the split in --data"):
        untwine.evaluate_run(path, ["reconstruction"], data=str(other), split="training")


def test_a_split_can_be_named_as_other_data(tmp_path):
    trained = untwine.train_run("vae", "digits(size=16)", tmp_path, quiet=True, **SMALL)
    how = {"n_examples": 50}
    named = untwine.evaluate_run(trained.path, ["elbo"], data="digits(size=16, split=test)", **how)
    split = untwine.evaluate_run(trained.path, ["elbo"], split="test", **how)
    assert named["elbo"].values == split["elbo"].values


def test_data_of_another_shape_is_refused(numbers):
    _, path = numbers
    with pytest.raises(DataError, match=r"shape \(1, 16, 16\); the model takes \(1, 6, 6\)"):
        untwine.evaluate_run(path, ["elbo"], data="sprites(size=16)")
    view = RunView(open_run(path, data="sprites(size=16)"), name="numbers")
    assert "the model takes" in view.summary().missing


def test_held_out_examples_are_those_of_the_run_s_own_data(tmp_path):
    file = tmp_path / "numbers.npy"
    np.save(file, np.random.default_rng(0).normal(size=(60, 4)))
    trained = untwine.train_run(
        "vae", str(file), tmp_path / "runs", quiet=True, **SMALL, validation=0.2
    )
    shutil.copy(file, tmp_path / "copy.npy")
    np.save(tmp_path / "other.npy", np.zeros((60, 4)))
    for name, held_out in (("copy.npy", 12), ("other.npy", 0)):
        opened = open_run(trained.path, data=str(tmp_path / name))
        assert len(opened.validation or ()) == held_out


def test_an_old_run_whose_weights_leave_the_shape_open_needs_its_data(numbers):
    file, path = numbers
    record = read_json(path / "run.json")
    record.pop("card")
    write_json(path / "run.json", record)
    with pytest.raises(RunError, match=r"not marked as yours.*--data PLACE"):
        untwine.load(path)
    assert untwine.open_run(path, data=str(file)).model.card.shape == (1, 6, 6)
