"""untwine by `fit`, on sprites that it renders itself; `images` is not used."""

import network

import untwine
from untwine.optimisers import FusedAdam


def call_after_steps(hook):
    """Call a hook after every step of untwine's own Adam, which has no hooks of torch's."""
    step = FusedAdam.step

    def step_and_call(optimiser):
        step(optimiser)
        hook(optimiser)

    FusedAdam.step = step_and_call


def train(model, images):
    data = untwine.dataset("sprites", size=64)
    vae = untwine.build(model, data, latent=network.LATENT, network="conv-k4")
    if model == "vae":
        require_same_layers(vae)
    untwine.fit(vae, data, steps=20_000, batch=network.BATCH, lr=network.LR, quiet=True)


def require_same_layers(vae):
    """The peers' network must have the weights of ours, in any order."""
    peers = [*network.encoder().parameters(), *network.decoder().parameters()]
    ours, theirs = (sorted(tuple(p.shape) for p in ps) for ps in (vae.parameters(), peers))
    if ours != theirs:
        raise SystemExit("benchmarks/peers/network.py does not have the layers of conv-k4")
