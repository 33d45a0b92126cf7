"""pixyz by its VAE model and the loop of its examples, with fused Adam."""

import network
import torch
from pixyz.distributions import Bernoulli, Normal
from pixyz.losses import KullbackLeibler
from pixyz.models import VAE
from torch.utils.data import DataLoader, TensorDataset


class Encoder(Normal):
    def __init__(self):
        super().__init__(var=["z"], cond_var=["x"], name="q")
        self.layers = network.encoder()

    def forward(self, x):
        mean, log_variance = self.layers(x).chunk(2, -1)
        return {"loc": mean, "scale": (log_variance / 2).exp()}


class Decoder(Bernoulli):
    def __init__(self):
        super().__init__(var=["x"], cond_var=["z"], name="p")
        self.layers = network.decoder()

    def forward(self, z):
        return {"probs": torch.sigmoid(self.layers(z))}


def train(model, images):
    q, p = Encoder(), Decoder()
    prior = Normal(
        loc=torch.tensor(0.0),
        scale=torch.tensor(1.0),
        var=["z"],
        features_shape=[network.LATENT],
        name="p_prior",
    )
    vae = VAE(
        q,
        p,
        regularizer=KullbackLeibler(q, prior),
        optimizer=torch.optim.Adam,
        optimizer_params={"lr": network.LR, "fused": True},
    )
    data = TensorDataset(torch.from_numpy(images[:, None]).float())
    loader = DataLoader(data, batch_size=network.BATCH, shuffle=True)
    while True:
        total = 0.0
        for (x,) in loader:
            total += vae.train({"x": x}).item()
