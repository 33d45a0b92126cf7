"""Numbers have upper ends, and what would take too much is refused before it is taken."""

import sys

import numpy as np
import pytest
import torch

import untwine
from untwine.cli.main import main
from untwine.errors import ParameterError, UntwineError
from untwine.runs.directory import load
from untwine.schema import MAX_COUNT, MAX_REPEATS, MAX_WORKERS
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.codes import codes
from untwine.scoring.representation import Representation
from untwine.scoring.rows import score_rows
from untwine.study.file import Study
from untwine.study.running import run as run_study
from untwine.tools.compute import pick_device
from untwine.tools.sealed import read_json, write_json


@pytest.fixture(scope="module")
def data():
    return untwine.from_arrays(np.random.default_rng(0).random((20, 8, 8)))


@pytest.fixture(scope="module")
def model(data):
    return untwine.build("vae", data, latent=2, network="mlp(width=4)").eval()


@pytest.mark.parametrize("seeds", [0, MAX_REPEATS + 1, 10**18, True + 0.5])
def test_seeds_of_a_score_have_an_upper_end(seeds):
    rows = CodeArrays(np.random.default_rng(0).normal(size=(20, 2)), None)
    with pytest.raises(ParameterError, match="seeds must be a whole number from 1 to 10,000"):
        score_rows(rows, seeds=seeds)


def test_draws_and_examples_have_an_upper_end(model, data):
    with pytest.raises(ParameterError, match="draws must be"):
        codes(model, data, draws=MAX_REPEATS + 1)
    with pytest.raises(ParameterError, match="examples must be"):
        Representation(model, data, n_examples=MAX_COUNT + 1)
    assert len(Representation(model, data, n_examples=np.int64(5)).index) == 5


@pytest.mark.parametrize(
    "number", [{"batch": MAX_COUNT + 1}, {"latent": 10_001}, {"steps": 10**13}]
)
def test_numbers_of_a_training_have_an_upper_end(number):
    with pytest.raises(ParameterError, match=next(iter(number))):
        untwine.plan("vae", "digits", **number)


@pytest.mark.parametrize("how", [{"workers": MAX_WORKERS + 1}, {"threads": 0}, {"retries": 10**9}])
def test_numbers_of_a_study_have_an_upper_end(tmp_path, how):
    with pytest.raises(ParameterError, match=next(iter(how))):
        run_study(Study("s", (), ()), tmp_path, **how)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["cpu:x", "cpu:99999999999999999999", "cpu:", "gpu", "\0"])
def test_a_device_that_does_not_exist_is_refused(name):
    with pytest.raises(ParameterError, match="device"):
        pick_device(name)


def test_a_card_of_a_larger_model_than_its_weights_is_not_built(model, tmp_path):
    folder = model.save(tmp_path / "model")
    record = read_json(folder / "model.json")
    record["card"]["network"]["width"] = 6000  # 144 MB in one matrix, within the limit of a model
    write_json(folder / "model.json", record)
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.init, "kaiming_uniform_", lambda w, *a, **k: made.append(w.nbytes))
        with pytest.raises(UntwineError, match="would take more than"):
            load(folder)
    assert sum(made) < 2**26 + 2**20


def test_weights_of_many_draws_are_those_of_single_passes(model, data):
    x = data.take_repeatably(range(3))
    torch.manual_seed(0)
    together = model.log_weights(x, 4)
    torch.manual_seed(0)
    features, batch = model.features(x), model.as_batch(x)
    with torch.no_grad():
        single = [model.trace(batch, features=features).log_weight() for _ in range(4)]
    assert torch.equal(together, torch.stack(single, 1))


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")],
)
def test_a_command_without_memory_says_so(monkeypatch, capsys, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("untwine.runs.describe.read_specs", fail)
    monkeypatch.setattr(sys, "argv", ["untwine", "runs"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1 and "more memory than there is" in capsys.readouterr().err


def test_another_runtime_error_of_a_command_is_not_hidden(monkeypatch):
    def fail(*_):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("untwine.runs.describe.read_specs", fail)
    monkeypatch.setattr(sys, "argv", ["untwine", "runs"])
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        main()


def test_an_ending_that_cannot_be_written_is_refused_before_encoding(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["untwine", "encode", "no-run", "--out", f"{tmp_path}/x.txt"])
    with pytest.raises(SystemExit):
        main()
    assert "must end in .csv" in capsys.readouterr().err
