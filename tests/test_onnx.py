"""ONNX files compute what the trained model computes, for batches of any size."""

import importlib

import pytest
import torch

import untwine
from untwine.registry import models
from untwine.tools.onnx import check_file, relative_error

QUICK = ("beta-tcvae", "vamp-prior", "intel-sphere", "ml-vae", "conditional")
MAX_ERROR = 1e-4  # of numbers that are codes and pixels in single precision


def train(name, data, network="mlp"):
    settings = {"mlp.width": 32} if network == "mlp" else {}
    model = untwine.build(name, data, latent=4, network=network, **settings)
    untwine.fit(model, data, steps=60, batch=16, lr=3e-3, quiet=True)
    return model.eval()


def compare(model, data, folder):
    encoder, decoder = model.export_onnx(folder)
    assert (encoder.name, decoder.name) == ("encoder.onnx", "decoder.onnx")
    for n in (1, 7):
        x = data.take(range(0, 1000 * n, 1000))
        w = model.encode(x)
        assert relative_error(encoder, x, w) < MAX_ERROR
        assert relative_error(decoder, w, model.decode(w)) < MAX_ERROR
    return encoder, x, w


@pytest.mark.parametrize("name", QUICK)
def test_trained_models_give_the_same_codes_and_images(name, tiny, tmp_path):
    encoder, x, w = compare(train(name, tiny).given_in_turn(), tiny, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"encoder.onnx", "decoder.onnx"}
    with pytest.raises(untwine.RunError, match="deviates"):
        check_file(encoder, x, w + 0.1 * w.abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(models))
def test_every_model_with_convolutions(name, tiny, tmp_path):
    compare(train(name, tiny, "conv").given_in_turn(), tiny, tmp_path)


def test_the_command_writes_both(tmp_path):
    from typer.testing import CliRunner

    from untwine.cli.main import app

    options = {"network": "mlp(width=16)", "steps": 5, "quiet": True}
    run = untwine.train_run("vae", "sprites(size=16)", tmp_path, **options)
    done = CliRunner().invoke(app, ["export", str(run.path), str(tmp_path / "model"), "--onnx"])
    assert done.exit_code == 0
    names = {"model.json", "model.safetensors", "encoder.onnx", "decoder.onnx"}
    assert {file.name for file in (tmp_path / "model").iterdir()} == names
    loaded = untwine.load(tmp_path / "model")
    x = run.data.take([0, 1])
    assert relative_error(tmp_path / "model" / "encoder.onnx", x, loaded.encode(x)) < MAX_ERROR


@pytest.mark.filterwarnings("ignore")  # of PyTorch about its own parts
def test_a_file_for_one_size_of_batch_is_refused(tmp_path):
    file = tmp_path / "fixed.onnx"
    net = torch.nn.Linear(3, 2).eval()
    torch.onnx.export(net, (torch.rand(4, 3),), file, dynamo=True, verbose=False)
    with pytest.raises(untwine.RunError, match="batches of 4 alone"):
        check_file(file, torch.rand(4, 3), torch.rand(4, 2))


def test_without_the_library_the_sentence_names_the_extra(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(importlib.sys.modules, "onnxscript", None)
    model = untwine.build("vae", tiny, network="mlp")
    with pytest.raises(untwine.UntwineError, match=r"pip install 'untwine\[onnx\]'"):
        model.export_onnx(tmp_path)


def test_a_pass_is_the_terms_of_the_objective(tiny):
    model = untwine.build("vae", tiny, network="mlp").eval()
    x = tiny.take(range(8))
    torch.manual_seed(0)
    terms = model(x)
    torch.manual_seed(0)
    expected = model.objective(model.trace(untwine.Batch(x)))
    assert list(terms) == ["loss", "nll", "kl"]
    assert all(torch.equal(terms[name], expected[name]) for name in terms)
