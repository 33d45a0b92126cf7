"""The layers of untwine's conv-k4 for 64x64x1 in plain torch, and the numbers of all contenders."""

from itertools import pairwise

from torch import nn

BATCH, LATENT, HIDDEN, LR = 64, 10, 256, 1e-4
SHAPE = (1, 64, 64)


def encoder():
    """(B, 1, 64, 64) -> (B, 20): means, then logarithms of variances."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU()),
        nn.Flatten(),
        *(nn.Linear(1024, HIDDEN), nn.ReLU()),
        nn.Linear(HIDDEN, 2 * LATENT),
    )


def decoder():
    """(B, 10) -> (B, 1, 64, 64): logits."""
    return nn.Sequential(
        *(nn.Linear(LATENT, HIDDEN), nn.ReLU()),
        *(nn.Linear(HIDDEN, 1024), nn.ReLU()),
        nn.Unflatten(1, (64, 4, 4)),
        *(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),
        nn.ConvTranspose2d(32, 1, 4, 2, 1),
    )


def adversary():
    """(B, 10) -> (B, 2): FactorVAE's classifier of codes."""
    widths = [LATENT, *[1000] * 6]
    hidden = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Linear(before, after), nn.LeakyReLU(0.2))
    ]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], 2))
