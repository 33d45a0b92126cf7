# %% [markdown]
# # Write your own part
#
# From an equation to a trained model, combined with a paper. Suppose that the code should have no length, only a
# direction: w = z / ‖z‖, a point on a sphere.
#
# A VAE has [six slots](../explanation/slots.md). A function from the code z to what the decoder sees, w, is a *mapping*.
# `untwine.slots` says what each slot receives and returns; a mapping receives z (B, D) and returns w and a dictionary of
# tensors for its own loss terms, empty here.

# %%
import sys

import torch
from torch import Tensor

import untwine
from untwine.likelihoods.basic import bernoulli
from untwine.models import beta_tcvae
from untwine.networks.conv import conv
from untwine.slots import Extras, Mapping


class Sphere(Mapping):
    """w = z / ‖z‖: the decoder receives only the direction of the code."""

    def __init__(self, sizes: untwine.Sizes) -> None:
        super().__init__()
        self.out_features = sizes.latent

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        return torch.nn.functional.normalize(z, dim=-1), {}


# %% [markdown]
# A recipe is a set of filled slots, and recipes combine with `|`. Two that fill the same slot are refused.

# %%
recipe = untwine.Recipe(mapping=Sphere) | beta_tcvae(beta=2.0)

# %% [markdown]
# To build it, say how large the data and the code are, and choose network and likelihood.

# %%
data = untwine.dataset("sprites", size=32)
sizes = untwine.Sizes(data.shape, latent=3, n_train=len(data))
model = recipe.build(sizes, conv(width=8, hidden=64), bernoulli())
history = untwine.fit(model, data, steps=20 if "--quick" in sys.argv else 1500, lr=1e-3, quiet=True)
model

# %% [markdown]
# ## Does it do what it says?
#
# The equation is the test: every code has length one.

# %%
model.encode(data.take([0, 1, 2])).norm(dim=1)

# %%
untwine.plot.traversals(model, data)

# %% [markdown]
# ## Give it a name
#
# With a decorator the same part has a name, parameters and help, and works in `untwine train`, studies, the report and
# the explorer. Put it into a file, and pass the file with `--plugin`: [plug-ins](../how-to/plugins.md).
# [CONTRIBUTING.md](../../CONTRIBUTING.md) shows a model with a new term, a metric and a dataset, and what the contract
# tests check.
