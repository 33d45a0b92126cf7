"""Facts special to β-VAE."""

import pytest
import torch

import untwine
from untwine.errors import ParameterError
from untwine.records import Batch


def terms(data, beta):
    model = untwine.build("beta-vae", data, network="mlp", beta=beta)
    torch.manual_seed(0)
    return model.objective(model.trace(Batch(data.take(list(range(8))))))


def test_beta_one_is_the_vae_bit_for_bit(tiny):
    one = untwine.build("beta-vae", tiny, network="mlp", beta=1)
    plain = untwine.build("vae", tiny, network="mlp")
    a, b = (untwine.fit(m, tiny, steps=10, batch=8, quiet=True) for m in (one, plain))
    assert a == b


def test_loss_is_affine_in_beta(tiny):
    low, high = terms(tiny, 2.0), terms(tiny, 7.0)
    assert torch.allclose(high["loss"] - low["loss"], 5 * low["kl"], rtol=1e-4)


def test_beta_zero_gives_no_gradient_to_the_variance_through_the_kl(tiny):
    assert torch.equal(terms(tiny, 0.0)["loss"], terms(tiny, 0.0)["nll"])


def test_negative_beta_is_refused(tiny):
    with pytest.raises(ParameterError, match="number of at least 0"):
        untwine.build("beta-vae", tiny, beta=-1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beta-vae", "beta-tcvae"])
@pytest.mark.parametrize("seed", [0, 1])
def test_reconstruction_worsens_as_beta_grows(name, seed):
    data = untwine.dataset("sprites", size=32)
    errors = []
    for beta in (1, 4, 16):
        model = untwine.build(name, data, beta=beta, seed=seed)
        errors.append(
            untwine.fit(model, data, steps=800, lr=1e-3, seed=seed, quiet=True)[-1]["nll"]
        )
    assert errors == sorted(errors)
