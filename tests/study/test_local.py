"""Jobs in worker processes: what dies is tried again, and nothing is lost."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from untwine.errors import DataError
from untwine.spec import plan
from untwine.study.file import Study
from untwine.study.folder import (
    StudyFolder,
    failure_reason,
    make_folder,
    open_folder,
    runs_by_state,
)
from untwine.study.job import Job, is_complete
from untwine.study.local import _ProgressReporter, launch
from untwine.study.monitor import StudyProgress
from untwine.study.table import results_table
from untwine.tools.process import lock_directory

SMALL = {"network": "mlp", "steps": 6, "batch": 8, "latent": 2}


def runs(count, **numbers):
    return tuple(
        plan("vae", "sprites(size=16)", seed=seed, **{**SMALL, **numbers}) for seed in range(count)
    )


def folder(tmp_path, count, metrics=("mig",), **numbers):
    return make_folder(Study("study", runs(count, **numbers), metrics, examples=60), tmp_path)


def scores(where: StudyFolder):
    table = results_table(where)
    return dict(zip(table["run"], table["mig"], strict=True))


def test_a_job_survives_json():
    (spec,) = runs(1)
    job = Job(spec, "runs", ("mig",), 60)
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_all_jobs_are_done_and_not_done_again(tmp_path):
    where = folder(tmp_path, 3)
    events = []
    outcome = launch(where.jobs(), workers=2, watch=events.append)
    assert len(outcome.done) == 3 and not outcome.failed
    assert [event.kind for event in events].count("done") == 3
    assert all(map(is_complete, where.jobs()))
    assert {name: len(jobs) for name, jobs in runs_by_state(where).items()} == {
        "finished": 3,
        "running": 0,
        "failed": 0,
        "stopped": 0,
        "waiting": 0,
    }
    assert len(scores(open_folder(where.path))) == 3


def test_an_added_metric_or_seed_leaves_work_only_for_itself(tmp_path):
    where = folder(tmp_path, 1)
    launch(where.jobs())
    more = folder(tmp_path, 2)
    assert [is_complete(job) for job in more.jobs()] == [True, False]
    other = folder(tmp_path, 1, metrics=("mig", "udr"))
    assert [is_complete(job) for job in other.jobs()] == [False]
    launch(other.jobs())
    assert (other.jobs()[0].path / "codes.npz").exists()


def test_a_killed_worker_costs_one_retry_of_one_run(tmp_path):
    where = folder(tmp_path, 2, steps=400)
    killed = []

    def watch(event):
        if event.kind == "step" and not killed:
            killed.append(int(event.job.path.joinpath(".owner").read_text().split()[1]))
            os.kill(killed[0], signal.SIGKILL)
        events.append(event.kind)

    events = []
    outcome = launch(where.jobs(checkpoint_every=20), workers=2, watch=watch)
    assert killed and events.count("retry") == 1
    assert len(outcome.done) == 2 and not outcome.failed


def test_a_run_that_cannot_be_done_is_left_with_its_reason(tmp_path):
    where = folder(tmp_path, 2)
    broken = where.jobs()[0]
    broken.path.mkdir(parents=True)
    (broken.path / "run.json").write_text("{}")
    outcome = launch(where.jobs())
    assert len(outcome.done) == 1 and list(outcome.failed) == [str(broken.path)]
    reason = json.loads((broken.path / "failed.json").read_text())["reason"]
    assert "Traceback" in reason
    assert [len(found) for found in runs_by_state(where).values()] == [1, 0, 1, 0, 0]


def test_a_run_that_another_process_works_on_is_left_to_it(tmp_path):
    where = folder(tmp_path, 2)
    held = where.jobs()[0]
    held.path.mkdir(parents=True)
    with lock_directory(held.path):
        outcome = launch(where.jobs())
    assert outcome.busy == [held] and len(outcome.done) == 1
    assert not outcome.failed and not (held.path / "failed.json").exists()


def test_a_run_that_becomes_free_is_done_at_the_end(tmp_path):
    where = folder(tmp_path, 2)
    held = where.jobs()[0]
    held.path.mkdir(parents=True)
    events = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock_directory(held.path))

        def watch(event):
            events.append(event.kind)
            if event.kind == "done":
                stack.close()

        outcome = launch(where.jobs(), watch=watch)
    assert "busy" in events and len(outcome.done) == 2 and not outcome.busy


def test_a_worker_whose_driver_is_gone_goes_on_until_it_is_asked_to_save():
    here, there = multiprocessing.Pipe()
    here.close()
    _ProgressReporter(there).tell("training", 1, 2, "")


@pytest.mark.filterwarnings("error")
def test_damaged_files_cost_only_their_own_run(tmp_path, capsys):
    where = folder(tmp_path, 3, metrics=("mig", "udr"))
    launch(where.jobs())
    scored, coded, _ = where.jobs()
    (scored.path / "scores.json").write_text("{")
    (scored.path / "failed.json").write_text("{")
    (coded.path / "codes.npz").write_bytes((coded.path / "codes.npz").read_bytes()[:100])
    assert [is_complete(job) for job in where.jobs()] == [False, False, True]
    assert len(results_table(where)) == 2 and "scores.json is damaged" in capsys.readouterr().err
    assert runs_by_state(where)["failed"] == [scored] and "damaged" in failure_reason(scored)
    outcome = launch(where.jobs())
    assert not outcome.failed and is_complete(scored) and is_complete(coded)
    (scored.path / "done.json").write_text("{")
    assert runs_by_state(where)["failed"] == [scored]
    assert "done.json is damaged" in failure_reason(scored)
    assert list(launch(where.jobs()).failed) == [str(scored.path)]


def test_a_study_remembers_where_its_runs_are(tmp_path):
    study = Study("study", runs(1), ("mig",), examples=60)
    shared = make_folder(study, tmp_path, storage=str(tmp_path / "shared"))
    assert shared.runs == tmp_path / "shared"
    assert make_folder(study, tmp_path).runs == open_folder(shared.path).runs == shared.runs
    moved = make_folder(study, tmp_path, storage="memory://bucket")
    assert moved.remote and open_folder(moved.path).runs == moved.path / "runs"


def test_a_study_does_not_take_the_directory_of_imported_results(tmp_path):
    where = folder(tmp_path, 0)
    (where.path / "imported.csv").write_text("model\n")
    folder(tmp_path, 0)
    with pytest.raises(DataError, match="were imported; give the study another name"):
        folder(tmp_path, 1)


STUDY = """
study: long
models: {beta-vae: {beta: [1, 4]}}
data: sprites(size=16)
seeds: 2
training: {network: mlp, steps: 500, batch: 8, latent: 2}
metrics: [mig]
examples: 60
"""


def start(tmp_path):
    (tmp_path / "long.yaml").write_text(STUDY)
    words = ["study", "run", str(tmp_path / "long.yaml"), "--out", str(tmp_path), "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "untwine", *words, "--checkpoint-every", "50"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_state(tmp_path):
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("long/runs/*/states/*.safetensors")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_study_goes_on_where_its_driver_was_stopped(tmp_path, how):
    process = start(tmp_path)
    wait_for_state(tmp_path)
    process.send_signal(how)
    _, err = process.communicate(timeout=120)
    assert process.returncode == (130 if how != signal.SIGKILL else -9), err
    again = start(tmp_path)
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    stopped = scores(open_folder(out.strip()))
    jobs = open_folder(out.strip()).jobs(checkpoint_every=50)
    alone = StudyFolder(tmp_path / "alone", open_folder(out.strip()).study)
    launch([j for j in alone.jobs() if j.spec.directory == jobs[0].spec.directory])
    assert len(stopped) == 4
    assert scores(alone)[jobs[0].spec.directory] == stopped[jobs[0].spec.directory]


def test_the_tally_says_how_far_and_how_long():
    tally = StudyProgress(total=4, done=1)
    assert tally.left is None and "1 of 4 done" in tally.summary()
