"""Run directories: exact resume after any death, damage, locks and interrupts."""

import json
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

import untwine
from untwine.errors import RunError
from untwine.runs.describe import describe_runs, read_specs
from untwine.runs.directory import is_finished, read_scores, score_values
from untwine.runs.finding import find_run
from untwine.runs.states import latest_state, list_states, save_state
from untwine.runs.training import prepare_or_resume
from untwine.scoring import scores
from untwine.scoring.evaluation import evaluate_run
from untwine.tools.compute import limit_threads
from untwine.tools.process import is_running
from untwine.tools.sealed import read_json, write_json

STEPS = 60
SPEC = {
    "settings": ["sprites.size=16", "width=4", "hidden=8"],
    "latent": 3,
    "batch": 8,
    "steps": STEPS,
}
OPTIONS = {"threads": 1, "checkpoint_every": 5, "quiet": True}
RESULTS = ("model.safetensors", "history.csv", "scores.json")


def spec():
    return untwine.plan("beta-tcvae", "sprites", **SPEC)


def train(out):
    path = untwine.run(spec(), out, **OPTIONS)
    evaluate_run(path, ["mig", "reconstruction", "log-likelihood"], n_examples=50)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that nothing interrupted; not to be changed."""
    return train(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="module")
def undisturbed(trained):
    """The results of a run that nothing interrupted."""
    return results(trained)


@pytest.fixture
def finished(trained, tmp_path):
    """A copy of that run in a directory of its own."""
    return shutil.copytree(trained, tmp_path / trained.name)


def results(path):
    return {name: (path / name).read_bytes() for name in RESULTS}


def child(out, prelude=""):
    """A process that trains the run, after some lines that spoil things for it."""
    code = f"""
import os, signal
import torch
torch.set_num_threads(1)
import untwine, untwine.train
{textwrap.dedent(prelude)}
untwine.run(untwine.plan("beta-tcvae", "sprites", **{SPEC!r}), {str(out)!r}, **{OPTIONS!r})
"""
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


DIE_AT_STEP = """
record = untwine.train.State.record
def dying(self, terms):
    record(self, terms)
    if self.step == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
untwine.train.State.record = dying
"""

DIE_WHILE_WRITING = """
sync, calls = os.fsync, []
def dying(handle):
    calls.append(handle)
    if len(calls) == {call}:
        os.ftruncate(handle, 1000) if {cut} else None
        os.kill(os.getpid(), signal.SIGKILL)
    sync(handle)
os.fsync = dying
"""


def test_a_killed_run_ends_with_identical_weights_history_and_scores(tmp_path, undisturbed):
    steps = sorted(random.Random(0).sample(range(1, STEPS), 3))
    for step in steps:
        process = child(tmp_path, DIE_AT_STEP.format(step=step))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert results(train(tmp_path)) == undisturbed


# Calls 1 and 2 write run.json; then each state is a file and its directory.
@pytest.mark.parametrize(
    ("call", "cut"), [(1, False), (3, True), (5, False), (6, False), (9, True)]
)
def test_a_run_killed_while_it_writes_goes_on_exactly(tmp_path, undisturbed, call, cut):
    process = child(tmp_path, DIE_WHILE_WRITING.format(call=call, cut=cut))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    path = train(tmp_path)
    assert results(path) == undisturbed
    assert not list(path.rglob("*.tmp"))


def test_an_interrupted_run_saves_and_goes_on_exactly(tmp_path, undisturbed):
    path = tmp_path / spec().directory
    slow = "import time\n" + DIE_AT_STEP.format(step=-1).replace(
        "record(self, terms)", "record(self, terms); time.sleep(0.02)"
    )
    process = child(tmp_path, slow)
    wait_for(lambda: list_states(path / "states"))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert "KeyboardInterrupt" in error and not is_finished(path)
    assert results(train(tmp_path)) == undisturbed


def test_a_second_process_is_refused_and_a_dead_one_does_not_block(tmp_path, undisturbed):
    path = tmp_path / spec().directory
    slow = DIE_AT_STEP.format(step=-1).replace(
        "record(self, terms)", "record(self, terms); signal.pause()"
    )
    process = child(tmp_path, slow)
    wait_for(lambda: (path / ".owner").exists() and (path / "run.json").exists())
    with pytest.raises(RunError, match=f"locked by process {process.pid}"):
        untwine.run(spec(), tmp_path, **OPTIONS)
    assert is_running(path)
    process.kill()
    process.communicate()
    assert not is_running(path)
    assert results(train(tmp_path)) == undisturbed


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_a_damaged_state_is_named_and_the_one_before_is_used(tmp_path, undisturbed, damage, capsys):
    process = child(tmp_path, DIE_AT_STEP.format(step=33))
    process.communicate()
    path = tmp_path / spec().directory
    newest = list_states(path / "states")[0]
    content = bytearray(newest.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    else:
        content[-1] ^= 1
    newest.write_bytes(content)
    assert results(train(tmp_path)) == undisturbed
    assert f"{newest} is damaged" in capsys.readouterr().err


def test_a_run_without_any_whole_state_starts_again(tmp_path, undisturbed):
    process = child(tmp_path, DIE_AT_STEP.format(step=33))
    process.communicate()
    for file in list_states(tmp_path / spec().directory / "states"):
        file.write_bytes(b"")
    assert results(train(tmp_path)) == undisturbed


def test_a_finished_run_is_left_alone(tmp_path, finished):
    path = finished
    before = {file: file.stat().st_mtime_ns for file in path.iterdir() if file.suffix}
    assert untwine.run(spec(), tmp_path, **OPTIONS) == path
    assert {file: file.stat().st_mtime_ns for file in path.iterdir() if file.suffix} == before
    assert not (path / "states").exists()


def test_a_run_goes_on_with_the_threads_it_was_started_with(tmp_path):
    process = child(tmp_path, DIE_AT_STEP.format(step=12))
    process.communicate()
    before = torch.get_num_threads()
    path = untwine.run(spec(), tmp_path, **{**OPTIONS, "threads": 2})
    assert json.loads((path / "run.json").read_text())["how"]["threads"] == 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("network", "expected"), [("mlp(width=64)", 1), ("conv", 2)])
def test_a_run_says_with_how_many_threads_it_is_computed(tmp_path, network, expected, capsys):
    """They follow from the network, and a resumed run keeps them where there are other cores."""
    plan = untwine.plan("vae", "sprites", size=16, network=network)
    model = untwine.build("vae", untwine.dataset("sprites", size=16), network=network)
    (tmp_path / "run").mkdir()
    for cores in (2, 3):
        with limit_threads(cores):
            how = prepare_or_resume(tmp_path / "run", plan, model, "cpu", None, "no")
        assert how["threads"] == expected
    assert json.loads((tmp_path / "run" / "run.json").read_text())["how"] == how
    assert capsys.readouterr().err == ""


def test_a_diverged_run_keeps_its_last_good_state(tmp_path):
    wild = untwine.plan("vae", "sprites", **{**SPEC, "lr": 1e20, "steps": 500})
    with pytest.raises(RunError, match="training stopped"):
        untwine.run(wild, tmp_path, **{**OPTIONS, "checkpoint_every": 1})
    kept = latest_state(tmp_path / wild.directory / "states", print)
    if kept:
        weights = [v for k, v in kept[0].items() if k.startswith("model.")]
        assert all(w.isfinite().all() for w in weights)


def test_an_opened_run_encodes_as_it_did(tmp_path, finished, tiny):
    path = finished
    first, second = untwine.open_run(path), untwine.open_run(path)
    x = tiny.take([3, 4])
    assert torch.equal(first.model.encode(x), second.model.encode(x))
    assert first.spec == spec() and first.history[-1]["step"] == STEPS


def test_damaged_weights_are_refused(tmp_path, finished):
    path = finished
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0\0")
    with pytest.raises(RunError, match="is damaged"):
        untwine.open_run(path)


def test_what_is_not_a_run_or_not_finished_is_refused(tmp_path):
    with pytest.raises(RunError, match="is not a run"):
        untwine.open_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        untwine.open_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunError, match="spec is missing"):
        untwine.open_run(tmp_path)
    process = child(tmp_path, DIE_AT_STEP.format(step=12))
    process.communicate()
    with pytest.raises(RunError, match="not finished"):
        untwine.open_run(tmp_path / spec().directory)


def test_runs_are_found_by_a_part_of_their_name(tmp_path, finished):
    path = finished
    assert find_run("beta", tmp_path) == path == find_run(str(path), "elsewhere")
    with pytest.raises(RunError, match="there is no run 'nothing'"):
        find_run("nothing", tmp_path)
    other = tmp_path / (path.name + "x")
    other.mkdir()
    (other / "run.json").write_text("{}")
    with pytest.raises(RunError, match="matches beta-tcvae-"):
        find_run("beta", tmp_path)


def test_the_list_of_runs_tells_their_state_and_survives_a_broken_one(tmp_path, finished):
    path = finished
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    rows = {row[0]: row for row in describe_runs(read_specs(tmp_path))}
    assert rows[path.name][5] == "finished" and "mig" in rows[path.name][6]
    assert rows["broken"][5].startswith("unreadable")


def test_only_new_metrics_are_computed(tmp_path, monkeypatch):
    path = untwine.run(spec(), tmp_path, **OPTIONS)
    first = evaluate_run(path, ["mig", "sap"], n_examples=50)
    monkeypatch.setattr("untwine.metrics.mig", None)
    calls = []
    monkeypatch.setattr(
        "untwine.scoring.scores.score",
        lambda rep, choice, score=scores.score: calls.append(choice.name) or score(rep, choice),
    )
    both = evaluate_run(path, ["mig", "sap", "reconstruction"], n_examples=50)
    assert both["mig"] == first["mig"] and calls == ["reconstruction"]


def test_the_two_newest_states_are_kept(tmp_path):
    for step in (1, 2, 3):
        save_state(tmp_path / "s", step, {"x": torch.tensor(float(step))}, {"step": step})
    assert [path.name[:9] for path in list_states(tmp_path / "s")] == ["000000003", "000000002"]
    tensors, facts = latest_state(tmp_path / "s", print)
    assert tensors["x"] == 3 and facts == {"step": 3}


def test_an_edited_specification_is_noticed(finished):
    record = read_json(finished / "run.json")
    record["spec"]["likelihood"] = {"name": "laplace"}
    (finished / "run.json").write_text(json.dumps({**record, "format": 2}))
    with pytest.raises(RunError, match="checksum is missing"):
        untwine.open_run(finished)
    write_json(finished / "run.json", record)
    with pytest.raises(RunError, match="was changed after"):
        untwine.open_run(finished)
    with pytest.raises(RunError, match="describes another run"):
        untwine.run(spec(), finished.parent, **OPTIONS)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", "{}"),
        ("run.json", "[1]"),
        ("run.json", '{"spec": {"model": "vae"}, "how": {}, "versions": {}}'),
        ("run.json", '{"spec": [], "how": {}, "versions": {}}'),
        ("done.json", "{}"),
        ("done.json", "["),
        ("history.csv", ""),
        ("history.csv", "step,loss\n1,x\n"),
        ("model.safetensors", ""),
    ],
)
def test_a_damaged_file_is_told_in_a_sentence_and_spoils_nothing_else(finished, file, content):
    (finished / file).write_text(content)
    with pytest.raises(RunError):
        untwine.open_run(finished)
    assert len(describe_runs(read_specs(finished.parent))) == 1


@pytest.mark.parametrize("content", ["[", "[]", '{"mig": 3}'])
def test_damaged_scores_are_told_and_computed_again(finished, content, capsys):
    before, metrics = score_values(finished), list(read_scores(finished))
    (finished / "scores.json").write_text(content)
    with pytest.raises(RunError, match="is damaged"):
        score_values(finished)
    assert "unreadable" in describe_runs(read_specs(finished.parent))[0][6]
    evaluate_run(finished, metrics, n_examples=50)
    assert "scores.json is damaged" in capsys.readouterr().err
    assert score_values(finished) == before


def test_stray_files_do_not_disturb(tmp_path):
    process = child(tmp_path, DIE_AT_STEP.format(step=33))
    process.communicate()
    path = tmp_path / spec().directory
    (path / "states" / "0abc.safetensors").write_text("")
    (path / ".owner").write_text("")
    assert is_running(path)  # an owner that is just being written
    assert describe_runs(read_specs(tmp_path))[0][5] == "running at 50 %"


def test_scores_with_other_settings_replace_only_their_own_metric(finished):
    before = read_scores(finished)
    evaluate_run(finished, ["mig"], n_examples=60)
    after = read_scores(finished)
    assert after["mig"]["examples"] == 60
    assert after["reconstruction"] == before["reconstruction"]


def test_nothing_is_left_behind_by_a_run_that_cannot_start(tmp_path):
    wrong = untwine.plan(
        "beta-tcvae", "sprites", **{**SPEC, "batch": 1, "settings": ["weighting=mss"]}
    )
    with pytest.raises(untwine.IncompatibleError, match="batch of at least 2"):
        untwine.run(wrong, tmp_path / "out")
    with pytest.raises(untwine.ParameterError, match="device must be"):
        untwine.run(spec(), tmp_path / "out", device="gpu")
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_device_says_where_it_can_go_on(tmp_path):
    process = child(tmp_path, DIE_AT_STEP.format(step=12))
    process.communicate()
    file = tmp_path / spec().directory / "run.json"
    record = read_json(file)
    record["how"]["device"] = "cuda"
    write_json(file, record)
    if not torch.cuda.is_available():
        with pytest.raises(RunError, match="was started on cuda, which this machine lacks"):
            untwine.run(spec(), tmp_path, **OPTIONS)


def test_whole_names_come_before_parts(tmp_path):
    for name in ("vae-sprites-1", "beta-vae-sprites-1", "vae-sprites-12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    assert find_run("vae-sprites-1", tmp_path).name == "vae-sprites-1"
    assert find_run("beta", tmp_path).name == "beta-vae-sprites-1"
    with pytest.raises(RunError, match="matches vae-sprites-1"):
        find_run("vae", tmp_path)
