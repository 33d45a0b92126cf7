"""Write your own part and combine it with a paper: codes on a sphere, with β-TCVAE.

python examples/own_part.py [--quick]
"""

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


recipe = untwine.Recipe(mapping=Sphere) | beta_tcvae(beta=2.0)

data = untwine.dataset("sprites", size=32)
sizes = untwine.Sizes(data.shape, latent=3, n_train=len(data))
model = recipe.build(sizes, conv(), bernoulli())
untwine.fit(model, data, steps=20 if "--quick" in sys.argv else 2000, lr=1e-3)
print("every code has length one:", model.encode(data.take([0, 1, 2])).norm(dim=1))
