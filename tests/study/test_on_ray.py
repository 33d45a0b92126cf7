"""Studies on a Ray cluster of several nodes on this machine."""

import time

import pytest

from untwine.errors import DataError, ParameterError
from untwine.spec import plan
from untwine.study.file import Study
from untwine.study.folder import StudyFolder, make_folder
from untwine.study.job import Job, is_complete
from untwine.study.remote import is_url, pull, push, send, synced
from untwine.study.table import results_table
from untwine.tools.sealed import read_json

SMALL = {"network": "mlp", "batch": 8, "latent": 2}


def folder(path, count, steps, **how):
    runs = tuple(
        plan("vae", "sprites(size=16)", seed=seed, steps=steps, **SMALL) for seed in range(count)
    )
    return make_folder(Study("study", runs, ("mig",), examples=60), path, **how)


def scores(where: StudyFolder):
    table = results_table(where)
    return dict(zip(table["run"], table["mig"], strict=True))


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one CPU; the head does no work."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'untwine[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    workers = [nodes.add_node(num_cpus=1) for _ in range(2)]
    ray.init(nodes.address, log_to_driver=False, logging_level="error")
    yield nodes, workers
    ray.shutdown()
    nodes.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_lost_node_costs_nothing_but_time(cluster, tmp_path):
    """Runs end as alone, also those of the node that is lost."""
    import threading

    from untwine.study.local import launch
    from untwine.study.running import run

    nodes, workers = cluster
    where = folder(tmp_path / "ray", 4, 1500)
    jobs = where.jobs(checkpoint_every=200)

    def lose_a_node():
        deadline = time.monotonic() + 180
        while not list(where.runs.glob("*/states/*.safetensors")) and time.monotonic() < deadline:
            time.sleep(0.05)
        nodes.remove_node(workers[0], allow_graceful=False)
        nodes.add_node(num_cpus=1)

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    outcome = run(where, backend="ray", retries=3, checkpoint_every=200, quiet=True)
    thread.join()
    assert not outcome.failed and len(outcome.done) == 4
    assert all(map(is_complete, jobs)) and len(list(where.runs.iterdir())) == 4
    alone = folder(tmp_path / "alone", 4, 1500)
    launch(alone.jobs()[:2], workers=2)
    assert scores(alone).items() <= scores(where).items()


@pytest.mark.filterwarnings("ignore")
def test_a_driver_that_starts_again_goes_on_and_results_may_lie_at_an_address(cluster, tmp_path):
    from untwine.study.running import run

    address = f"file://{tmp_path / 'bucket'}"
    first = folder(tmp_path, 1, 20, storage=address)
    assert len(run(first, backend="ray", quiet=True).done) == 1
    more = folder(tmp_path, 2, 20)
    again = run(more, backend="ray", quiet=True)
    assert len(again.done) == 1 and not again.failed
    assert len(scores(more)) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_refused_leaves_its_reason(cluster, tmp_path):
    from untwine.study.running import run

    where = folder(tmp_path, 1, 5)
    (broken,) = where.jobs()
    broken.path.mkdir(parents=True)
    (broken.path / "run.json").write_text("{}")
    outcome = run(where, backend="ray", workers=1, quiet=True)
    assert list(outcome.failed) and read_json(broken.path / "failed.json")["attempts"] == 1


@pytest.mark.filterwarnings("ignore")
def test_what_no_node_can_do_is_refused(cluster, tmp_path):
    from untwine.study.running import run

    where = folder(tmp_path, 1, 5)
    with pytest.raises(ParameterError, match="no node of the Ray cluster has 2 CPUs and 0 GPUs"):
        run(where, backend="ray", threads=2, quiet=True)
    with pytest.raises(ParameterError, match="1 CPUs and 3 GPUs"):
        run(where, backend="ray", gpus=3, quiet=True)


class Tasks:
    """Enough of Ray to count tasks: as many as `at_once` have ended at each look."""

    def __init__(self, *messages, at_once=1):
        self.messages, self.at_once = list(messages), at_once
        self.pending, self.most, self.looks = 0, 0, 0

    def submit(self, job):
        self.pending += 1
        self.most = max(self.most, self.pending)
        return object()

    def wait(self, references, num_returns, timeout):
        self.looks += 1
        ended = min(num_returns, self.at_once)
        return references[:ended], references[ended:]

    def get(self, reference):
        self.pending -= 1
        return self.messages.pop(0)


def test_tasks_are_limited_and_unexpected_failures_are_tried_again(tmp_path):
    from untwine.study.local import JobQueue
    from untwine.study.on_ray import _run_tasks

    failed, done = {"kind": "failed", "reason": "why"}, {"kind": "done"}
    tasks, events = Tasks(failed, done, done, failed, done, failed), []
    jobs = folder(tmp_path, 4, 5).jobs()
    ledger = JobQueue(jobs, 1, events.append)
    outcome = _run_tasks(tasks, ledger, tasks.submit, 2, events.append)
    assert tasks.most == 2 and [event.kind for event in events].count("start") == 6
    assert len(outcome.done) == 3 and list(outcome.failed) == [str(jobs[3].path)]
    assert read_json(jobs[3].path / "failed.json") == {"attempts": 2, "reason": "why"}


def test_tasks_that_end_together_are_taken_in_one_look(tmp_path):
    """A look costs as much as there are tasks, so one look for each would be quadratic."""
    from untwine.study.local import JobQueue
    from untwine.study.on_ray import _run_tasks

    def ignore(event):
        pass

    jobs = folder(tmp_path, 40, 5).jobs()
    tasks = Tasks(*[{"kind": "done"}] * len(jobs), at_once=10)
    outcome = _run_tasks(tasks, JobQueue(jobs, 1, ignore), tasks.submit, 20, ignore)
    assert len(outcome.done) == 40 and tasks.most == 20 and tasks.looks == 8


def test_a_mirror_brings_back_what_was_there_and_sends_what_is_new(tmp_path):
    address = f"file://{tmp_path / 'bucket'}"
    job = Job(plan("vae", "sprites(size=16)", steps=5, **SMALL), str(tmp_path / "here"))
    with synced(address, job) as first:
        (first.path / "states").mkdir()
        (first.path / "states" / "1").write_text("one")
        (first.path / "history.csv").write_text("step\n1\n")
    with synced(address, job) as second:
        assert (second.path / "states" / "1").read_text() == "one"
    pull(address, [job])
    assert (job.path / "history.csv").exists() and not (job.path / "states").exists()


def test_a_failure_that_was_overcome_is_gone_there_and_here(tmp_path):
    address = f"file://{tmp_path / 'bucket'}"
    job = Job(plan("vae", "sprites(size=16)", steps=5, **SMALL), str(tmp_path / "here"))
    job.path.mkdir(parents=True)
    (job.path / "failed.json").write_text("{}")
    send(address, job, "failed.json")
    pull(address, [job])
    assert (job.path / "failed.json").exists()
    with synced(address, job) as again:
        (again.path / "failed.json").unlink()
        (again.path / "scores.json").write_text("{}")
    pull(address, [job])
    assert not (job.path / "failed.json").exists()
    with synced(address, job) as more:
        (more.path / "history.csv").write_text("2")
    pull(address, [job])
    assert (job.path / "history.csv").read_text() == "2"


def test_pushing_follows_what_is_removed(tmp_path):
    import fsspec

    system, sent = fsspec.filesystem("file"), {}
    (tmp_path / "run" / "states").mkdir(parents=True)
    (tmp_path / "run" / "states" / "1").write_text("one")
    push(system, str(tmp_path / "there"), tmp_path / "run", sent)
    (tmp_path / "run" / "states" / "1").unlink()
    push(system, str(tmp_path / "there"), tmp_path / "run", sent)
    assert not (tmp_path / "there" / "states" / "1").exists() and not sent


def test_addresses_are_told_from_directories():
    assert is_url("s3://bucket/runs") and not is_url("/data/runs")


@pytest.mark.parametrize("address", ["reference://x", "dir://x", "nothing://x", "zip://x"])
def test_an_address_that_cannot_be_opened_is_refused_in_a_sentence(address):
    with pytest.raises(DataError, match=r"cannot be (opened|listed): "):
        pull(address, [])


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_nodes_receive_the_plug_ins_of_the_driver(cluster, tmp_path, monkeypatch):
    """The file is only where the driver is, and is gone before the tasks begin."""
    from untwine import plugins
    from untwine.registry import load_plugin, models
    from untwine.study.on_ray import launch

    monkeypatch.setenv(plugins.VARIABLE, "")
    source = tmp_path / "hushed.py"
    source.write_text(
        "from untwine.models import beta_vae\nfrom untwine.registry import model\n\n\n"
        '@model(title="Hushed", paper="Nobody, 2026")\ndef hushed():\n'
        '    "A strong KL (Nobody, 2026)."\n    return beta_vae(beta=9.0)\n'
    )
    load_plugin(source)
    try:
        packed = plugins.pack()
        monkeypatch.setattr("untwine.study.on_ray.pack", lambda: packed)
        source.unlink()
        spec = plan("hushed", "sprites(size=16)", steps=2, **SMALL)
        outcome = launch([Job(spec, str(tmp_path))], retries=0)
        assert not outcome.failed and (tmp_path / spec.directory / "done.json").exists()
    finally:
        models.forget(models["hushed"].function.__module__)
