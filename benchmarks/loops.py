"""Hand-written training loops in plain PyTorch, without untwine.

The network is that of Higgins et al. (2017) with four convolutions of kernel 4 for 64 pixels and
three for 32. One batch in memory; nothing is loaded, logged or saved.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LATENT, N_TRAIN = 64, 10, 737_280


def network(size):
    """An encoder to the two halves of a Gaussian, and a decoder to logits."""
    widths = [32, 32, 64, 64] if size == 64 else [32, 32, 64]
    down, up, before = [], [], 1
    for width in widths:
        down += [nn.Conv2d(before, width, 4, 2, 1), nn.ReLU()]
        up = [nn.ConvTranspose2d(width, before, 4, 2, 1), nn.ReLU(), *up]
        before = width
    flat = widths[-1] * 16
    encoder = [nn.Flatten(), nn.Linear(flat, 256), nn.ReLU(), nn.Linear(256, 2 * LATENT)]
    decoder = [nn.Linear(LATENT, 256), nn.ReLU(), nn.Linear(256, flat), nn.ReLU()]
    return (
        nn.Sequential(*down, *encoder),
        nn.Sequential(*decoder, nn.Unflatten(1, (widths[-1], 4, 4)), *up[:-1]),
    )


def classifier():
    layers, before = [], LATENT
    for _ in range(6):
        layers += [nn.Linear(before, 1000), nn.LeakyReLU(0.2)]
        before = 1000
    return nn.Sequential(*layers, nn.Linear(before, 2))


def total_correlation(z, mean, logvar):
    log_q = -0.5 * (
        (z[:, None] - mean[None]).square() * (-logvar[None]).exp()
        + logvar[None]
        + math.log(2 * math.pi)
    )
    constant = math.log(BATCH * N_TRAIN)
    joint = log_q.sum(-1).logsumexp(1) - constant
    return (joint - (log_q.logsumexp(1) - constant).sum(-1)).mean()


def covariance_penalty(mean, logvar):
    d = mean - mean.mean(0)
    s = d.T @ d / BATCH + logvar.exp().mean(0).diag()
    diagonal = s.diagonal()
    off = s.square().sum() - diagonal.square().sum()
    return 10 * off + 10 * (diagonal - 1).square().sum()


class Loop:
    """A step of one model; `best` has channels_last, fused Adam and a compiled loss."""

    def __init__(self, model, size, best):
        self.encoder, self.decoder = network(size)
        self.x = (torch.rand(BATCH, 1, size, size) > 0.9).float()
        self.other = (torch.rand(BATCH, 1, size, size) > 0.9).float()
        self.model = model
        modules = [self.encoder, self.decoder]
        if best:
            for module in modules:
                module.to(memory_format=torch.channels_last)
        self.weights = [p for module in modules for p in module.parameters()]
        self.adam = torch.optim.Adam(self.weights, 1e-4, fused=best)
        if model == "factor-vae":
            self.classifier = classifier()
            parameters = self.classifier.parameters()
            self.adversary_adam = torch.optim.Adam(parameters, 1e-4, (0.5, 0.9), fused=best)
        self.loss_of = torch.compile(self.loss) if best else self.loss
        self.adversary_loss_of = torch.compile(self.adversary_loss) if best else self.adversary_loss

    def draw(self, x):
        mean, logvar = self.encoder(x).chunk(2, -1)
        return mean + (logvar / 2).exp() * torch.randn_like(mean), mean, logvar

    def loss(self):
        z, mean, logvar = self.draw(self.x)
        logits = self.decoder(z)
        nll = F.binary_cross_entropy_with_logits(logits, self.x, reduction="sum")
        kl = (mean.square() + logvar.exp() - 1 - logvar).sum() / 2
        loss = (nll + kl) / BATCH
        if self.model == "beta-tcvae":
            loss = loss + 5 * total_correlation(z, mean, logvar)
        elif self.model == "dip-vae-ii":
            loss = loss + covariance_penalty(mean, logvar)
        elif self.model == "factor-vae":
            joint, product = self.classifier(z).unbind(-1)
            loss = loss + 10 * (joint - product).mean()
        return loss, z.detach()

    def adversary_loss(self, z):
        with torch.no_grad():
            other = self.draw(self.other)[0]
            permuted = other.gather(0, torch.rand_like(other).argsort(0))
        real, fake = self.classifier(z), self.classifier(permuted)
        label = torch.zeros(BATCH, dtype=torch.long)
        return (F.cross_entropy(real, label) + F.cross_entropy(fake, label + 1)) / 2

    def step(self):
        loss, z = self.loss_of()
        self.adam.zero_grad()
        loss.backward(inputs=self.weights)
        self.adam.step()
        if self.model == "factor-vae":
            self.adversary_adam.zero_grad()
            self.adversary_loss_of(z).backward()
            self.adversary_adam.step()


def multiply_adds(size):
    """Per image of a training step of the plain VAE, counted by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    loop = Loop("vae", size, best=False)
    with FlopCounterMode(display=False) as counter:
        loop.step()
    return counter.get_total_flops() / 2 / BATCH
