"""Runs that differ in their seed, trained at once: their directories are those of single runs."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from untwine import together
from untwine.errors import RunError
from untwine.guards import computing_threads, locked
from untwine.jobs import Job, complete, grouped, is_complete
from untwine.launch import Event, Ledger, launch
from untwine.monitor import Tally
from untwine.recording import Unlike
from untwine.runs import is_finished, run
from untwine.spec import plan
from untwine.stacking import stacked
from untwine.store import states, step_of
from untwine.together import run_together
from untwine.train import State

SEEDS = 3


def specs(count=SEEDS, model="vae", data="circle", **numbers):
    numbers = {"network": "mlp-toy", "latent": 2, "batch": 20, "steps": 60, "lr": 1e-3, **numbers}
    return [plan(model, data, seed=seed, **numbers) for seed in range(count)]


def alone(out, these, checkpoint_every=20):
    how = {"threads": 1, "checkpoint_every": checkpoint_every, "quiet": True}
    with computing_threads(1):
        return [run(spec, out, **how) for spec in these]


def outcome(out, spec):
    """The files of a run that hold what came out."""
    path = out / spec.directory
    files = {name: (path / name).read_bytes() for name in ("model.safetensors", "history.csv")}
    facts = json.loads((path / "run.json").read_text())
    assert not (path / "states").exists()
    return files, facts, json.loads((path / "done.json").read_text())["weights"]


@pytest.fixture
def counted(monkeypatch):
    """How many seeds were trained at once, each time it was done."""
    found = []

    def watched(models, *args, **kwargs):
        stack = stacked(models, *args, **kwargs)
        found.append(len(models))
        return stack

    monkeypatch.setattr(together, "stacked", watched)
    return found


def test_directories_are_those_of_single_runs(tmp_path, counted):
    these = specs()
    alone(tmp_path / "alone", these)
    run_together(these, tmp_path / "together", checkpoint_every=20)
    assert counted == [SEEDS]
    for spec in these:
        assert outcome(tmp_path / "together", spec) == outcome(tmp_path / "alone", spec)


@pytest.mark.parametrize("goes_on", [run_together, lambda these, out: alone(out, these)])
def test_what_was_stopped_goes_on_together_or_alone(tmp_path, monkeypatch, counted, goes_on):
    these = specs()
    alone(tmp_path / "alone", these)
    asked = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(together, "interruptible", lambda: _Stopper(lambda: next(asked) == 33))
        with pytest.raises(KeyboardInterrupt):
            run_together(these, tmp_path / "stopped", checkpoint_every=20)
    for spec in these:
        kept = states(tmp_path / "stopped" / spec.directory / "states")
        assert [step_of(state) for state in kept] == [33, 20]
    goes_on(these, tmp_path / "stopped")
    for spec in these:
        assert outcome(tmp_path / "stopped", spec) == outcome(tmp_path / "alone", spec)


class _Stopper:
    def __init__(self, stop):
        self.stop = stop

    def __enter__(self):
        return self.stop

    def __exit__(self, *error):
        return None


STARTED = """
import json, sys
from untwine.jobs import Job, complete

complete(Job.from_json(json.loads(sys.argv[1])))
"""


def test_a_process_that_was_killed_loses_no_more_than_the_steps_since_the_last_state(
    tmp_path, counted
):
    """States are written one after another, so that some runs may be ahead of others."""
    these = specs(steps=1500)
    alone(tmp_path / "alone", these, checkpoint_every=1000)
    job = Job(these[0], str(tmp_path / "killed"), checkpoint_every=50, beside=(1, 2))
    process = subprocess.Popen([sys.executable, "-c", STARTED, json.dumps(job.to_json())])
    folders = [tmp_path / "killed" / spec.directory / "states" for spec in these]
    while process.poll() is None and len(states(folders[-1])) < 2:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    newest = [states(folder)[0] for folder in folders]
    if step_of(newest[0]) == step_of(newest[-1]):
        newest[-1].unlink()
    complete(job)
    for other in job.others:
        complete(other)
    assert counted == [SEEDS]
    for spec in these:
        assert outcome(tmp_path / "killed", spec) == outcome(tmp_path / "alone", spec)


def test_those_go_on_together_that_have_a_step_in_common(tmp_path, counted):
    these = specs()
    alone(tmp_path / "alone", these)
    asked = iter(range(10**6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "interruptible", lambda: _Stopper(lambda: next(asked) == 33))
        with pytest.raises(KeyboardInterrupt):
            run_together(these[:2], tmp_path / "mixed", checkpoint_every=20)
    run_together(these, tmp_path / "mixed", checkpoint_every=20)
    assert counted == [2, 2]
    assert [is_finished(tmp_path / "mixed" / s.directory) for s in these] == [True, True, False]
    alone(tmp_path / "mixed", these)
    for spec in these:
        assert outcome(tmp_path / "mixed", spec) == outcome(tmp_path / "alone", spec)


def test_an_interrupt_while_it_is_set_up_is_not_lost(tmp_path, monkeypatch):
    """Also where nothing comes of it, and a single run would begin."""

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        raise Unlike("no")

    monkeypatch.setattr(together, "stacked", interrupted)
    job = Job(specs()[0], str(tmp_path), beside=(1, 2))
    with pytest.raises(KeyboardInterrupt):
        complete(job)
    assert not is_finished(job.path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "run.json").write_text("{}"),
        lambda path: (path / "run.json").mkdir(),
        lambda path: (path / "states").write_text(""),
        lambda path: (path / "run.json").write_text(
            json.dumps({"spec": {**specs()[1].to_json(), "model": [["no-such-model", {}]]}})
        ),
    ],
)
def test_what_is_damaged_costs_only_its_own_run(tmp_path, damage):
    these = specs()
    job = Job(these[0], str(tmp_path), beside=(1, 2))
    broken = job.others[0].path
    broken.mkdir()
    damage(broken)
    complete(job)
    assert is_complete(job)


def test_finished_busy_and_damaged_runs_are_left_out(tmp_path, monkeypatch):
    these = specs(5)
    paths = [tmp_path / spec.directory for spec in these]
    alone(tmp_path, these[:1])
    before = (paths[0] / "done.json").read_bytes()
    paths[1].mkdir()
    (paths[1] / "run.json").write_text("{}")
    paths[2].mkdir()
    free = []

    def watched(*args, **kwargs):
        with locked(paths[0]), locked(paths[1]):
            free.append(True)
        return stacked(*args, **kwargs)

    monkeypatch.setattr(together, "stacked", watched)
    with locked(paths[2]):
        run_together(these, tmp_path)
    assert free == [True]  # to be scored or mended meanwhile
    assert [is_finished(path) for path in paths] == [True, False, False, True, True]
    assert (paths[0] / "done.json").read_bytes() == before


def test_after_one_diverged_all_go_on_alone(tmp_path, monkeypatch, counted):
    these = specs(2)
    alone(tmp_path / "alone", these)

    def diverge(state):
        if state.step == 50:
            raise RunError("training stopped")

    with monkeypatch.context() as patch:
        patch.setattr(State, "require_finite", diverge)
        run_together(these, tmp_path / "stopped", checkpoint_every=20)
    paths = [tmp_path / "stopped" / spec.directory for spec in these]
    assert counted == [2] and not any(map(is_finished, paths))
    assert all(step_of(states(path / "states")[0]) == 40 for path in paths)
    alone(tmp_path / "stopped", these)
    for spec in these:
        assert outcome(tmp_path / "stopped", spec) == outcome(tmp_path / "alone", spec)


def test_what_diverges_at_once_says_so_in_its_own_run(tmp_path):
    these = specs(2, lr=1e25)
    run_together(these, tmp_path)
    assert not any(is_finished(tmp_path / spec.directory) for spec in these)
    with pytest.raises(RunError, match="lower the learning rate"):
        alone(tmp_path, these)


def test_what_cannot_be_stacked_is_run_alone(tmp_path, counted):
    these = specs(2, "mixup")
    job = Job(these[0], str(tmp_path), beside=(1,))
    complete(job)
    assert not counted and is_complete(job) and not is_finished(job.others[0].path)


def test_workers_do_what_was_grouped(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "FEWEST_STEPS", 1)
    these = specs(4)
    given = grouped([Job(spec, str(tmp_path), ("reconstruction",), 60) for spec in these], 2)
    assert [job.beside for job in given] == [(2,), (3,), (), ()]
    outcome = launch(given, workers=2)
    assert len(outcome.done) == 4 and not outcome.failed and not outcome.busy
    assert all(map(is_complete, given))


def test_groups_are_of_one_setting_and_leave_no_worker_idle(tmp_path):
    first, second = specs(10, steps=2000), specs(3, "beta-vae", steps=2000)
    these = [Job(spec, str(tmp_path)) for spec in (*first, *second)]

    def sizes(workers):
        found = grouped(these, workers)
        assert len(found) == len(these)
        assert all(replace(job, beside=()) in these for job in found)
        for job in found:
            assert all(other in these for other in job.others)
        return [1 + len(job.beside) for job in found if job.beside]

    assert sizes(1) == [5, 5, 3]  # even, and no more than eight
    assert sizes(2) == [5, 5, 3]
    assert sizes(4) == [4, 3, 3, 3]
    assert sizes(8) == []
    assert [job.spec.seed for job in grouped(these, 1)[:3]] == [0, 1, 0]


@pytest.mark.parametrize(
    ("numbers", "how"),
    [
        ({"steps": 1999}, {}),
        ({"network": "conv", "data": "sprites(size=16)"}, {}),
        ({"network": "mlp-tanh", "data": "sprites(size=16)"}, {}),
        ({}, {"threads": 2}),
        ({}, {"device": "auto"}),
    ],
)
def test_what_does_not_pay_is_not_grouped(tmp_path, numbers, how):
    these = [Job(s, str(tmp_path), **how) for s in specs(**{"steps": 2000, **numbers})]
    assert grouped(these, 1) == these


def test_finished_runs_are_not_grouped(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "FEWEST_STEPS", 1)
    these = specs(3)
    alone(tmp_path, these[:2])
    given = [Job(spec, str(tmp_path), ("mig",)) for spec in these]
    assert grouped(given, 1) == given


def test_jobs_wait_for_the_one_that_trains_them(tmp_path):
    first, second, other = (Job(spec, str(tmp_path)) for spec in specs(3))
    ledger = Ledger([replace(first, beside=(1,)), second, other], 1, lambda event: None)
    leader = ledger.take()
    assert leader[0].beside and ledger.take() == (other, 0)
    assert ledger.take() is None and len(ledger) == 1
    ledger.settle(*leader, 0, {"kind": "done"})
    assert ledger.take() == (second, 0)


def test_only_what_others_work_on_is_left_when_a_leader_is_busy(tmp_path):
    these = specs()
    given = [Job(spec, str(tmp_path)) for spec in these]
    given[0].path.mkdir()
    with locked(given[0].path):
        outcome = launch([replace(given[0], beside=(1, 2)), *given[1:]], workers=2)
    assert [job.spec.seed for job in outcome.busy] == [0]
    assert len(outcome.done) == 2 and all(map(is_complete, given[1:]))


def test_a_second_attempt_is_made_alone(tmp_path):
    given = Job(specs(1)[0], str(tmp_path), beside=(1, 2))
    ledger = Ledger([given], 1, lambda event: None)
    ledger.settle(*ledger.take(), 0, {"kind": "died", "reason": "killed"})
    assert ledger.take() == (replace(given, beside=()), 1)


def test_what_is_left_is_told_from_what_was_trained(tmp_path):
    """Runs that were trained beside another one count as done long before they are scored."""
    these = specs(4)
    alone(tmp_path, these)
    first, *rest = (Job(spec, str(tmp_path)) for spec in these)
    tally = Tally(total=8)
    tally.began -= 10
    tally.note(Event("done", replace(first, beside=(1, 2, 3)), 0))
    assert tally.done == 1 and tally.left == pytest.approx(10, rel=0.01)
    for job, kind in zip(rest, ("done", "done", "failed"), strict=True):
        tally.note(Event(kind, job, 0))
    assert (tally.done, tally.failed) == (3, 1) and tally.left == pytest.approx(10, rel=0.01)
