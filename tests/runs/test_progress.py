"""What a run that is not finished says of itself: progress, and the reason of a failure."""

import signal

import pytest

import untwine
from untwine.errors import RunError
from untwine.runs import progress
from untwine.runs.directory import describe_progress, run_state
from untwine.runs.progress import read_failure, read_progress

STEPS = 60
OPTIONS = {"threads": 1, "checkpoint_every": 5, "quiet": True}


def spec(**changed):
    numbers = {"size": 16, "network": "mlp", "latent": 3, "batch": 8, "steps": STEPS, **changed}
    return untwine.plan("beta-tcvae", "sprites", **numbers)


def test_progress_is_written_while_a_run_is_trained_and_removed_at_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "WRITE_INTERVAL", 0.0)
    path, seen = tmp_path / spec().directory, []
    untwine.run(
        spec(),
        tmp_path,
        **OPTIONS,
        on_row=lambda row: seen.append((row, read_progress(path), describe_progress(path, spec()))),
    )
    assert len(seen) == 6
    for row, written, words in seen:
        assert written.history[-1] == row and written.step == row["step"] <= written.steps == STEPS
        assert (written.seconds_left == 0) == (row["step"] == STEPS)
        assert words == f"running at {100 * row['step'] // STEPS:.0f} %"
    assert len(seen[-1][1].history) == 6 and read_progress(path) is None
    assert [row for row, *_ in seen] == untwine.open_run(path).history


def test_an_interrupted_run_keeps_its_progress_and_resumes_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "WRITE_INTERVAL", 0.0)

    def stop(row):
        if row["step"] == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        untwine.run(spec(), tmp_path, **OPTIONS, on_row=stop)
    path = tmp_path / spec().directory
    assert [row["step"] for row in read_progress(path).history] == [10, 20]
    assert describe_progress(path, spec()) == "stopped at 33 %"
    rows = []
    untwine.run(spec(), tmp_path, **OPTIONS, on_row=lambda _: rows.append(read_progress(path)))
    assert [row["step"] for row in rows[0].history] == [10, 20, 30]
    assert [row["step"] for row in untwine.open_run(path).history] == [10, 20, 30, 40, 50, 60]


def test_the_reason_of_a_failure_is_kept_until_the_run_is_started_again(tmp_path):
    wild = spec(lr=1e20, steps=500)
    path = tmp_path / wild.directory
    with pytest.raises(RunError):
        untwine.run(wild, tmp_path, **OPTIONS)
    assert run_state(path) == "failed" and "NaN or infinite" in read_failure(path)
    with pytest.raises(KeyboardInterrupt):
        untwine.run(spec(), tmp_path, **OPTIONS, on_row=lambda _: signal.raise_signal(2))
    stopped = tmp_path / spec().directory
    (path / "failed.json").rename(stopped / "failed.json")
    assert run_state(stopped) == "failed"
    untwine.run(spec(), tmp_path, **OPTIONS)
    assert run_state(stopped) == "finished" and read_failure(stopped) == ""


def test_progress_that_cannot_be_written_or_read_does_no_harm(tmp_path, monkeypatch):
    def full(*arguments, **how):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(progress, "write_json", full)
        path = untwine.run(spec(), tmp_path, **OPTIONS)
    assert run_state(path) == "finished"
    (path / "progress.json").write_text("{")
    assert read_progress(path) is None
