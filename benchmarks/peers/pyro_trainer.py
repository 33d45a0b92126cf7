"""Pyro by SVI and the loop of its VAE tutorial, with its compiled bound and fused Adam."""

import network
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, JitTrace_ELBO
from pyro.optim import Adam
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = network.encoder(), network.decoder()

    def model(self, x):
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", len(x)):
            zero = x.new_zeros(len(x), network.LATENT)
            z = pyro.sample("latent", dist.Normal(zero, zero + 1).to_event(1))
            pyro.sample("obs", dist.Bernoulli(logits=self.decoder(z)).to_event(3), obs=x)

    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", len(x)):
            mean, log_variance = self.encoder(x).chunk(2, -1)
            pyro.sample("latent", dist.Normal(mean, (log_variance / 2).exp()).to_event(1))


def train(model, images):
    pyro.enable_validation(False)
    vae = Autoencoder()
    svi = SVI(vae.model, vae.guide, Adam({"lr": network.LR, "fused": True}), loss=JitTrace_ELBO())
    data = TensorDataset(torch.from_numpy(images[:, None]).float())
    loader = DataLoader(data, batch_size=network.BATCH, shuffle=True)
    while True:
        total = 0.0
        for (x,) in loader:
            total += svi.step(x)
