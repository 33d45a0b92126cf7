"""Facts special to the plain VAE."""

import math

import pytest
import torch

import untwine


def hoyer(z):
    """Mean over examples of (√D − ‖z‖₁/‖z‖₂) / (√D − 1), each latent scaled by its spread."""
    z = z / z.std(0, correction=0)
    d = math.sqrt(z.shape[1])
    return ((d - z.abs().sum(1) / z.square().sum(1).sqrt()) / (d - 1)).mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_codes_of_gaussian_data_are_as_dense_as_gaussian_codes(seed):
    """Independent Gaussian codes of 10 latents have a Hoyer sparsity of 0.2665."""
    generator = torch.Generator().manual_seed(seed)
    causes, mixing = (
        torch.randn(5000, 10, generator=generator),
        torch.randn(10, 30, generator=generator),
    )
    data = untwine.from_arrays((causes @ mixing).numpy())
    model = untwine.build("vae", data, latent=10, seed=seed, variance=0.1)
    untwine.fit(model, data, steps=3000, lr=1e-3, seed=seed, quiet=True)
    assert hoyer(model.encode(data.take(list(range(2000))))) == pytest.approx(0.2665, abs=0.02)
