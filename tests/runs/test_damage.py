"""A changed byte in any file of a run is named or mended, never shown."""

import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

import untwine
from untwine.errors import RunError
from untwine.runs.describe import describe_runs, read_specs
from untwine.runs.directory import read_done, read_scores, score_values
from untwine.runs.states import list_states, save_state
from untwine.runs.training import run
from untwine.scoring.evaluation import evaluate_run
from untwine.study.check import check_files
from untwine.study.job import store_codes
from untwine.study.stored_codes import has_codes, read_codes
from untwine.tools.files import sha256
from untwine.tools.sealed import read_json, write_json

FILES = ("run.json", "done.json", "model.safetensors", "history.csv", "scores.json", "codes.npz")
NUMBERS = {"latent": 3, "batch": 16, "steps": 20, "lr": 1e-3, "network": "mlp", "width": 8}
OLD = Path(__file__).parents[1] / "fixtures" / "version-0.1" / "runs"


def plan(**changes):
    return untwine.plan("beta-vae", "sprites", size=16, **{**NUMBERS, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = run(plan(), tmp_path_factory.mktemp("runs"), quiet=True, threads=1)
    evaluate_run(path, ["mig", "reconstruction"], n_examples=50)
    store_codes(path)
    return path


@pytest.fixture
def path(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "runs" / whole.name))


def observe(path):
    """All that commands read of a run, as text."""
    trained = untwine.open_run(path)
    weights = {name: value.tolist() for name, value in trained.model.state_dict().items()}
    codes = {name: values.tolist() for name, values in (read_codes(path) or {}).items()}
    return json.dumps([trained.record, list(trained.history), read_scores(path), weights, codes])


def changes_of(content, rng):
    """Flipped bits, cuts, additions and changed digits."""
    for _ in range(8):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        yield bytes(flipped)
    for _ in range(4):
        yield content[: rng.randrange(len(content))]
    yield content + b"\0"
    digits = [match.start() for match in re.finditer(rb"[0-9]", content)]
    for place in rng.sample(digits, 8):
        changed = bytearray(content)
        changed[place] = ord(b"%d" % ((changed[place] - 47) % 10))
        yield bytes(changed)


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_any_file_is_named_or_has_no_effect(path, name):
    before, content = observe(path), (path / name).read_bytes()
    named = 0
    for changed in changes_of(content, random.Random(0)):
        (path / name).write_bytes(changed)
        try:
            assert observe(path) == before
        except RunError as error:
            named += 1
            assert name.partition(".")[0] in str(error)
        assert len(describe_runs(read_specs(path.parent))) == 1
        assert any(finding.is_damaged for finding in check_files(path))
    assert named == 21


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["link", "pipe", "device", "directory", "missing"])
def test_what_is_no_regular_file_is_named_at_once(path, name, kind, tmp_path):
    (path / name).rename(tmp_path / name)
    if kind == "link":
        (path / name).symlink_to(tmp_path / name)
    elif kind == "pipe":
        os.mkfifo(path / name)
    elif kind == "device":
        (path / name).symlink_to("/dev/zero")
    elif kind == "directory":
        (path / name).mkdir()
    if kind == "missing" and name in ("scores.json", "codes.npz"):
        assert read_scores(path) == {} or not has_codes(path)
        return
    with pytest.raises(RunError):
        observe(path)
    describe_runs(read_specs(path.parent))


def reseal_weights(path, content):
    """Other weights with a fitting checksum."""
    (path / "model.safetensors").write_bytes(content)
    write_json(path / "done.json", {**read_done(path), "weights": sha256(content)})


def test_scores_and_codes_of_other_weights_are_not_shown(path, capsys):
    before = score_values(path)
    tensors = load_file(path / "model.safetensors")
    reseal_weights(path, save({name: value + 0.1 for name, value in tensors.items()}))
    with pytest.raises(RunError, match="scores of other weights; evaluate the run again"):
        read_scores(path)
    assert "unreadable" in describe_runs(read_specs(path.parent))[0][6] and not has_codes(path)
    evaluate_run(path, ["mig", "reconstruction"], n_examples=50)
    assert "other weights" in capsys.readouterr().err
    assert score_values(path).keys() == before.keys() and score_values(path) != before


@pytest.mark.parametrize("kind", ["text", "other shapes", "incomplete", "other numbers", "header"])
def test_weights_that_do_not_fit_with_a_fitting_checksum_are_named(path, kind):
    tensors = load_file(path / "model.safetensors")
    first = next(iter(tensors))
    content = {
        "text": b"no tensors at all",
        "header": (10**12).to_bytes(8, "little") + b"{}",
        "other shapes": save({**tensors, first: torch.zeros(3)}),
        "incomplete": save({name: tensors[name] for name in list(tensors)[1:]}),
        "other numbers": save({**tensors, first: tensors[first].double()}),
    }[kind]
    reseal_weights(path, content)
    with pytest.raises(RunError, match=r"safetensors (is damaged|does not fit|holds)"):
        untwine.open_run(path)


def test_a_sparse_file_of_weights_is_refused_before_it_is_read(path):
    with (path / "model.safetensors").open("r+b") as stream:
        stream.truncate(1 << 33)
    with pytest.raises(RunError, match="nearly all holes"):
        untwine.open_run(path)


def test_a_history_of_very_many_cells_is_refused(path):
    content = b"step,loss\n" + b"1,1\n" * 600_000
    (path / "history.csv").write_bytes(content)
    write_json(path / "done.json", {**read_json(path / "done.json"), "history": sha256(content)})
    with pytest.raises(RunError, match="1,200,002 cells"):
        untwine.open_run(path)


def interrupted(out, seed):
    """A run that stopped at step 10."""
    spec = plan(seed=seed)
    steps = iter(range(100))
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "untwine.runs.training.stop_requested",
            lambda: __import__("contextlib").nullcontext(lambda: next(steps) >= 10),
        )
        run(spec, out, quiet=True, threads=1)
    return spec, out / spec.directory


def test_a_state_of_another_run_is_passed_over(tmp_path, capsys, whole):
    _, other = interrupted(tmp_path / "other", seed=1)
    spec, path = interrupted(tmp_path / "runs", seed=0)
    shutil.rmtree(path / "states")
    shutil.copytree(other / "states", path / "states")
    run(spec, tmp_path / "runs", quiet=True, threads=1)
    assert "is a state of another run" in capsys.readouterr().err
    assert read_done(path)["weights"] == read_done(whole)["weights"]


@pytest.mark.parametrize(
    "facts", [{}, [], {"step": "x"}, {"step": 10}, {"step": 10, "history": [1], "seconds": 0}]
)
def test_a_state_that_makes_no_sense_is_a_sentence(tmp_path, facts):
    spec, path = interrupted(tmp_path / "runs", seed=0)
    shutil.rmtree(path / "states")
    save_state(path / "states", 10, {"x": torch.zeros(1)}, facts)
    try:
        run(spec, tmp_path / "runs", quiet=True, threads=1)
    except RunError as error:
        assert "not of this model" in str(error)
    assert len(list_states(path / "states")) <= 1


def test_an_old_run_is_sealed_when_it_is_written_and_its_files_are_whole(tmp_path):
    old = next(path for path in OLD.iterdir() if (path / "done.json").exists())
    path = Path(shutil.copytree(old, tmp_path / old.name))
    assert {finding.state for finding in check_files(path)} > {"whole"}
    assert not any(finding.is_damaged for finding in check_files(path))
    values = score_values(path)
    evaluate_run(path, ["irs"], n_examples=50)
    assert read_json(path / "scores.json", sealed=True)["weights"] == read_done(path)["weights"]
    assert score_values(path).items() > values.items()


def test_codes_of_an_unknown_kind_are_damaged(path):
    np.savez_compressed(path / "codes.npz", codes=np.zeros((9, 2), np.float32))
    with pytest.raises(RunError, match="compressed"):
        read_codes(path)
    np.savez(path / "codes.npz", codes=np.zeros((9, 2)), kl=np.zeros((9, 2)))
    with pytest.raises(RunError, match="not a table of numbers"):
        read_codes(path)
