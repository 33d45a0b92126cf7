"""Guards of speed that are no timers: counts of what costs time wherever it is measured."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typer.testing import CliRunner

import untwine
from untwine import schema
from untwine.cli.main import app
from untwine.data.dataset import Bits, Pixels, Shuffle, Vectors
from untwine.registry import models
from untwine.scoring.evaluation import evaluate_run
from untwine.scoring.representation import Representation
from untwine.train import loss_function
from untwine.vae import VAE

aten = torch.ops.aten
LOOKING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
COPYING = {aten.clone.default, aten._to_copy.default, aten.copy_.default}
BATCH, LATENT = 8, 4
every_model = pytest.mark.parametrize("name", list(models))


class Call(NamedTuple):
    op: torch._ops.OpOverload
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


class Calls(TorchDispatchMode, list):
    """Every operator with its tensors, which stay alive so that no memory is reused."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        outputs = op(*args, **(kwargs or {}))
        self.append(Call(op, tensors((args, kwargs)), tensors(outputs)))
        return outputs


class Fetches(TorchFunctionMode, list):
    """What reads a tensor into Python without an operator."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.tolist, torch.Tensor.numpy):
            self.append(function)
        return function(*args, **(kwargs or {}))


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def looks(call):
    """Whether the host waits for values, or for a number of them; on a GPU, for all its work."""
    if call.op in INDEXING:
        return any(index.dtype == torch.bool for index in call.inputs[1:])
    return bool(LOOKING & set(call.op.tags))


def memory(tensor):
    return tensor.untyped_storage().data_ptr()


def bytes_made(calls):
    """The bytes of all memory that operators took."""
    seen, total = {0}, 0
    for call in calls:
        seen |= set(map(memory, call.inputs))
        new = {
            memory(t): t.untyped_storage().nbytes() for t in call.outputs if memory(t) not in seen
        }
        total += sum(new.values())
        seen |= set(new)
    return total


def make(name, data, **settings):
    options = {"network": "mlp", "mlp.width": 16} | settings
    return untwine.build(name, data, latent=LATENT, **options)


def a_batch(data, place="cpu", n=BATCH):
    place = torch.device(place)
    index = Shuffle(len(data), n, 0, place).at(0)
    return data.to(place).batch(index, torch.zeros((), dtype=torch.long, device=place))


def step(model, batch):
    """The operators of one step without the optimiser's."""
    with Calls() as calls:
        terms, z = loss_function(model.train(), False)(batch)
        terms["loss"].backward()
        for adversary in model.objective.adversaries():
            adversary.adversary_loss(z, z).backward()
    return calls


def looks_of_training(model, data, steps):
    """How often training had looked at values before each step, and in all."""
    calls, fetches, before = Calls(), Fetches(), []

    def count():
        return len(fetches) + sum(map(looks, calls))

    def mark():
        before.append(count())
        return False

    model.card = None  # its latents are profiled after the last step
    with calls, fetches:
        untwine.fit(model, data, steps=steps, batch=BATCH, quiet=True, stop=mark)
    return before, count()


@every_model
def test_only_rows_of_history_wait_for_the_device(name, tiny):
    before, total = looks_of_training(make(name, tiny), tiny, steps=4)
    assert before == [0] * 4
    assert 1 <= total <= 3  # the terms, whether all weights are finite, the means


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("ml-vae", {}, 1),  # how many groups there are in the batch
        ("ml-vae", {"per_member": True}, 1),
        ("ml-vae", {"whole_batch": True}, 0),
        ("nested-vae", {}, 0),
    ],
)
def test_groups_of_a_batch_are_counted_once(name, settings, limit):
    images = np.random.default_rng(0).random((32, 8, 8))
    data = untwine.from_arrays(images, groups=np.arange(32) // 3)
    before, _ = looks_of_training(make(name, data, **settings), data, steps=3)
    assert before == [0, limit, 2 * limit]


@every_model
def test_a_step_runs_where_there_are_no_values(name, tiny):
    """A meta tensor stands for one on a GPU: to read it is an error, to hand it over is seen."""
    model = make(name, tiny)
    calls = step(model.to("meta"), a_batch(model.add_labels(tiny), "meta"))
    moved = [
        call.outputs[0].numel()
        for call in calls
        if call.op in COPYING and len({t.device for t in (*call.inputs, *call.outputs)}) > 1
    ]
    assert sum(moved) <= BATCH * BATCH  # the weights of a batch, or a share for each example


@pytest.mark.parametrize("name", ["vae", "beta-vae", "beta-tcvae", "dip-vae-ii", "iwae"])
def test_noise_is_drawn_once_a_step(name, tiny):
    calls = step(make(name, tiny), a_batch(tiny))
    drawn = [call for call in calls if torch.Tag.nondeterministic_seeded in call.op.tags]
    assert len(drawn) == 1


def test_all_parts_of_a_beta_tcvae_share_the_comparison_of_all_pairs(tiny):
    def pairwise(**settings):
        calls = step(make("beta-tcvae", tiny, **settings), a_batch(tiny))
        shape = (BATCH, BATCH, LATENT)
        return sum(output.shape == shape for call in calls for output in call.outputs)

    assert pairwise(alpha=2.0, gamma=3.0) <= pairwise()


@pytest.mark.parametrize("name", ["dip-vae-i", "dip-vae-ii"])
def test_both_terms_of_a_dip_vae_share_one_covariance(name, tiny):
    calls = step(make(name, tiny), a_batch(tiny))
    products = [call.outputs[0].shape for call in calls if call.op == aten.mm.default]
    assert products.count((LATENT, LATENT)) == 1


def black_and_white():
    return (np.random.default_rng(0).random((100, 32, 32)) > 0.5).astype(np.uint8)


def sources():
    bits, grey = black_and_white(), black_and_white()[..., None] * 255
    return {
        # The bytes of the images, then their floats.
        "pixels": (Pixels(torch.from_numpy(grey.repeat(3, -1))), 1 / 4 + 1),
        # An eighth of a byte, two bytes (shifted, masked) and a float for each pixel.
        "bits": (Bits(torch.from_numpy(np.packbits(bits, axis=-1))), 1 / 32 + 2 / 4 + 1),
        # The rows themselves.
        "vectors": (Vectors(torch.from_numpy(bits.reshape(100, -1)).float()), 1),
        # Three bytes and a float for each pixel; the rest are the crossings of the outlines, which
        # grow with the side of the image and not with its area.
        "sprites": (untwine.dataset("sprites", size=64).source, 3 / 4 + 1 + 3.25),
    }


@pytest.mark.parametrize("name", list(sources()))
def test_drawing_a_batch_makes_few_bytes_beside_its_own(name):
    source, limit = sources()[name]
    index = torch.randint(100, (64,))
    with Calls() as calls:
        batch = source.take(index)
    assert batch.nbytes <= bytes_made(calls) <= limit * batch.nbytes + 256


@pytest.mark.parametrize(
    ("network", "channels", "limit"),
    [
        ("conv", 1, 0),
        ("conv", 3, 0),
        ("conv-k4", 3, 0),
        ("mlp", 1, 0),
        ("mlp", 3, 1),  # colours lie side by side and are flattened one after the other
    ],
)
def test_a_step_does_not_copy_its_batch(network, channels, limit):
    images = black_and_white()[..., None].repeat(channels, -1) * 255
    data = untwine.from_arrays(images)
    batch = a_batch(data)
    calls = step(untwine.build("vae", data, network=network), batch)
    copies = [call for call in calls if call.op in COPYING]
    assert sum(memory(batch.x) in map(memory, call.inputs) for call in copies) == limit


@pytest.fixture
def passes(tiny):
    """A model, and how many examples have gone through its encoder and its decoder."""
    model, counts = make("vae", tiny), {"encoder": 0, "decoder": 0}

    def count(part, module, inputs, outputs):
        counts[part] += len(outputs)

    for part in counts:
        getattr(model, part).register_forward_hook(partial(count, part))
    return model, counts


def test_scores_of_codes_share_one_encoding_of_each_image(passes, tiny):
    model, counts = passes
    names = ["mig", "modularity", "sap", "explicitness", "total-correlation", "active-units"]
    untwine.evaluate(model, tiny, names, n_examples=512)
    assert counts == {"encoder": 512 + 256, "decoder": 0}  # to learn from, and to test on
    untwine.evaluate(model, tiny, ["mig", "reconstruction"], n_examples=512)
    assert counts == {"encoder": 512 + 256 + 512, "decoder": 512}


@pytest.mark.parametrize(
    ("need", "encoded", "decoded"),
    [
        ("codes", 1, 0),
        ("sampled_codes", 1, 0),
        ("kl", 1, 0),
        ("images", 0, 0),
        ("reconstructions", 1, 1),
        ("elbos", 1, 1),
        ("samples", 0, 1),
        ("normal_samples", 0, 1),
    ],
)
def test_what_metrics_ask_for_is_computed_once(need, encoded, decoded, passes, tiny):
    model, counts = passes
    seen = Representation(model, tiny, n_examples=512)
    for _ in range(2):
        getattr(seen, need)
    assert counts == {"encoder": 512 * encoded, "decoder": 512 * decoded}


def test_importance_weights_encode_each_image_once(passes, tiny):
    model, counts = passes
    Representation(model, tiny, n_examples=64).log_weights(draws=3)
    assert counts == {"encoder": 64, "decoder": 3 * 64}


def test_scores_that_are_kept_encode_nothing(tmp_path, monkeypatch):
    settings, numbers = ["sprites.size=16", "mlp.width=16"], {"network": "mlp", "steps": 2}
    path = untwine.run(untwine.plan("vae", "sprites", settings=settings, **numbers), tmp_path)
    encoded, codes = [], VAE.posterior_mean

    def counted(self, x, group=None):
        encoded.append(len(x))
        return codes(self, x, group)

    monkeypatch.setattr(VAE, "posterior_mean", counted)
    for _ in range(2):
        evaluate_run(path, ["mig", "modularity"], n_examples=128)
        assert sum(encoded) == 128


def test_the_parameters_of_an_entry_are_read_once(monkeypatch):
    """Listing and planning many runs asks for them thousands of times."""
    entry = models["beta-vae"]
    assert entry.parameters is entry.parameters
    monkeypatch.setattr(schema, "parameters_of", None)
    assert models.choose("beta-vae", beta=6).params == {"beta": 6.0}


def test_a_specification_that_is_read_has_each_piece_checked_once(monkeypatch):
    """Opening a large study reads one for each run."""
    content = untwine.plan("vae+jigsaw", "sprites", size=16).to_json()
    checked: list[str] = []
    original = schema.fill_defaults

    def counted(owner, parameters, params):
        checked.append(owner)
        return original(owner, parameters, params)

    monkeypatch.setattr(schema, "fill_defaults", counted)
    assert untwine.Run.from_json(content).to_json() == content
    assert sorted(checked) == ["bernoulli", "conv", "jigsaw", "sprites", "vae"]


def test_a_list_of_runs_reads_each_specification_once(tmp_path, monkeypatch):
    from untwine.runs import describe

    for seed in range(3):
        spec = untwine.plan("vae", "circle", steps=1, batch=4, seed=seed)
        untwine.run(spec, tmp_path, quiet=True)
    read: list[Path] = []
    original = describe.read_spec

    def counted(path):
        read.append(path)
        return original(path)

    monkeypatch.setattr(describe, "read_spec", counted)
    result = CliRunner().invoke(app, ["runs", "--out", str(tmp_path)])
    assert result.exit_code == 0 and result.output.count("finished") == 3
    assert len(read) == len(set(read)) == 3
