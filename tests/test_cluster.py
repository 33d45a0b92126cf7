"""Studies on a Ray cluster of several nodes on this machine."""

import time

import pytest

from untwine.jobs import Job, is_complete
from untwine.mirror import is_address, mirrored, pull, push
from untwine.results import Folder, make_folder, results
from untwine.spec import plan
from untwine.study import Study

SMALL = {"network": "mlp", "batch": 8, "latent": 2}


def folder(path, count, steps):
    runs = tuple(
        plan("vae", "sprites(size=16)", seed=seed, steps=steps, **SMALL) for seed in range(count)
    )
    return make_folder(Study("study", runs, ("mig",), examples=60), path)


def scores(where: Folder):
    table = results(where)
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
    import threading

    from untwine.cluster import launch_on_ray
    from untwine.launch import launch

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
    outcome = launch_on_ray(jobs, retries=3, quiet=True)
    thread.join()
    assert not outcome.failed and len(outcome.done) == 4
    assert all(map(is_complete, jobs)) and len(list(where.runs.iterdir())) == 4
    alone = folder(tmp_path / "alone", 4, 1500)
    launch(alone.jobs()[:1])
    assert scores(alone).items() <= scores(where).items()


@pytest.mark.filterwarnings("ignore")
def test_a_driver_that_starts_again_goes_on_and_results_may_lie_at_an_address(cluster, tmp_path):
    from untwine.cluster import launch_on_ray

    address = f"file://{tmp_path / 'bucket'}"
    first = folder(tmp_path, 1, 20)
    assert len(launch_on_ray(first.jobs(), runs=address, quiet=True).done) == 1
    more = folder(tmp_path, 2, 20)
    again = launch_on_ray(more.jobs(), runs=address, quiet=True)
    assert len(again.done) == 1 and not again.failed
    assert len(scores(more)) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_refused_leaves_its_reason(cluster, tmp_path):
    from untwine.cluster import launch_on_ray

    where = folder(tmp_path, 1, 5)
    (broken,) = where.jobs()
    broken.path.mkdir(parents=True)
    (broken.path / "run.json").write_text("{}")
    outcome = launch_on_ray(where.jobs(), quiet=True)
    assert list(outcome.failed) and (broken.path / "failed.json").exists()


def test_a_mirror_brings_back_what_was_there_and_sends_what_is_new(tmp_path):
    address = f"file://{tmp_path / 'bucket'}"
    job = Job(plan("vae", "sprites(size=16)", steps=5, **SMALL), str(tmp_path / "here"))
    with mirrored(address, job) as first:
        (first.path / "states").mkdir()
        (first.path / "states" / "1").write_text("one")
        (first.path / "done.json").write_text("{}")
    with mirrored(address, job) as second:
        assert (second.path / "states" / "1").read_text() == "one"
    pull(address, [job])
    assert (job.path / "done.json").exists() and not (job.path / "states").exists()


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
    assert is_address("s3://bucket/runs") and not is_address("/data/runs")
