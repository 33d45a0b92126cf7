"""untwine by `fit`, on sprites that it renders itself; `images` is not used."""

import network

import untwine


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
