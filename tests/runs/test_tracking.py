"""Every row reaches the tracker, also after an interruption, and its failures stop nothing."""

import sys

import pytest

import untwine
from untwine.runs import tracking
from untwine.runs.tracking import Tracking

NUMBERS = {"network": "mlp(width=16)", "latent": 3, "steps": 60, "quiet": True, "threads": 1}


def read_back(out):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (out / "tensorboard").iterdir()
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return events


def rows_of(events, name):
    return {event.step: float(event.tensor_proto.double_val[0]) for event in events.Tensors(name)}


def test_tensorboard_has_the_whole_history_and_pictures(tmp_path):
    run = untwine.train_run(
        "beta-tcvae", "sprites(size=16)", tmp_path, track="tensorboard", **NUMBERS
    )
    events = read_back(tmp_path)
    for name in ("loss", "nll", "kl", "tc"):
        assert rows_of(events, name) == {row["step"]: row[name] for row in run.history}
    assert set(events.Tags()["images"]) == {"samples", "traversals"}


def test_no_row_is_missing_after_a_resume(tmp_path, monkeypatch):
    def interrupt(row):
        if row["step"] == 40:
            raise KeyboardInterrupt

    options = {**NUMBERS, "track": "tensorboard", "checkpoint_every": 25}
    with pytest.raises(KeyboardInterrupt):
        untwine.train_run("vae", "sprites(size=16)", tmp_path, on_row=interrupt, **options)
    run = untwine.train_run("vae", "sprites(size=16)", tmp_path, **options)
    assert [row["step"] for row in run.history] == [10, 20, 30, 40, 50, 60]
    loss = rows_of(read_back(tmp_path), "loss")
    assert loss == {row["step"]: row["loss"] for row in run.history}


def test_tracking_changes_no_bit_and_no_name(tmp_path):
    runs = [
        untwine.train_run("vae", "sprites(size=16)", tmp_path / name, track=name, **NUMBERS)
        for name in ("", "tensorboard")
    ]
    assert runs[0].path.name == runs[1].path.name
    assert runs[0].record["weights"] == runs[1].record["weights"]


def test_a_tracker_that_fails_is_a_warning(tmp_path, monkeypatch, capsys):
    def broken(spec, out, step):
        raise OSError("the server is down")

    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", broken)
    run = untwine.train_run("vae", "sprites(size=16)", tmp_path, track="tensorboard", **NUMBERS)
    assert run.history[-1]["step"] == 60
    assert capsys.readouterr().err.count("the server is down") == 1


def test_files_of_a_tracker_are_not_written_through_a_link(tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "tensorboard").symlink_to(tmp_path / "elsewhere")
    untwine.train_run("vae", "sprites(size=16)", tmp_path / "runs", track="tensorboard", **NUMBERS)
    assert "tensorboard is a link" in capsys.readouterr().err
    assert not any((tmp_path / "elsewhere").iterdir())


def test_unknown_and_missing_trackers_are_refused_before_training(tmp_path, monkeypatch):
    with pytest.raises(untwine.UnknownNameError, match="did you mean 'tensorboard'"):
        untwine.train_run("vae", "sprites(size=16)", tmp_path, track="tensorbord", **NUMBERS)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(untwine.UntwineError, match=r"pip install 'untwine\[wandb\]'"):
        untwine.train_run("vae", "sprites(size=16)", tmp_path, track="wandb", **NUMBERS)
    assert not list(tmp_path.iterdir())


def test_a_study_passes_its_tracker_to_every_run(tmp_path):
    from untwine.study.job import Job, finish_job

    spec = untwine.plan("vae", "sprites(size=16)", network="mlp(width=16)", steps=20)
    job = Job.from_json(Job(spec, str(tmp_path), track="tensorboard").to_json())
    finish_job(job)
    assert rows_of(read_back(tmp_path), "loss").keys() == {10, 20}


def test_nothing_is_opened_before_the_first_row(tmp_path):
    spec = untwine.plan("vae", "sprites(size=16)", steps=20)
    Tracking("tensorboard", spec, tmp_path).close()
    assert not list(tmp_path.iterdir())
