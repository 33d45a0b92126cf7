"""Images that show what a model does: traversals, reconstructions, samples.

Reports, figures and exhibits all take their images from here, so that they show the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.tools.compute import seeded
from untwine.tools.images import ImageArray
from untwine.vae import VAE

TRAVERSAL_REACH, TRAVERSAL_STEPS = 2.5, 11  # the largest value of a latent, and images in a row


def traversal_values(steps: int = TRAVERSAL_STEPS, reach: float = TRAVERSAL_REACH) -> Tensor:
    """Return (steps,) the values that a latent takes in a traversal."""
    return torch.linspace(-reach, reach, steps)


def random_examples(model: VAE, data: Dataset, count: int, seed: int) -> tuple[VAE, Tensor]:
    """Return the model for the labels of (count, *shape) random examples, and these examples."""
    with seeded(seed):
        index = data.sample_indices(count, np.random.default_rng(seed))
        return model.given_data(data, index), data.take(index)


def traversal_images(
    model: VAE,
    example: Tensor,
    latents: Sequence[int] | None = None,
    values: Tensor | None = None,
) -> ImageArray:
    """Return (latents, steps, *shape) an example as one latent at a time takes each value."""
    steps = traversal_values() if values is None else values
    dims = None if latents is None else list(latents)
    return model.traverse(example.to(_device(model)), steps, dims).cpu().numpy()


def reconstruction_images(model: VAE, examples: Tensor) -> ImageArray:
    """Return (2, N, *shape) examples, and their reconstructions."""
    reconstructed = model.reconstruct(examples.to(_device(model))).cpu()
    return torch.stack([examples.cpu(), reconstructed]).numpy()


def sample_images(model: VAE, rows: int, columns: int, seed: int) -> ImageArray:
    """Return (rows, columns, *shape) samples from the prior."""
    images = model.sample(rows * columns, seed=seed).cpu()
    return images.unflatten(0, (rows, columns)).numpy()


def _device(model: VAE) -> torch.device:
    return next(model.parameters()).device
