"""disent by Lightning's Trainer, as in its README, with fused Adam."""

import network
import torch
from torch.utils.data import DataLoader

try:
    import torchvision  # noqa: F401
except RuntimeError:  # built for CUDA and without its operators; these two it asks for, disent not
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")

import lightning
from disent.dataset import DisentDataset
from disent.dataset.data import ArrayDataset
from disent.dataset.transform import ToImgTensorF32
from disent.frameworks.vae import BetaTcVae, Vae
from disent.model import AutoEncoder, DisentDecoder, DisentEncoder

MODELS = {"vae": (Vae, {}), "beta-tcvae": (BetaTcVae, {"beta": 6.0})}


class Encoder(DisentEncoder):
    def __init__(self):
        super().__init__(network.SHAPE, z_size=network.LATENT, z_multiplier=2)
        self.layers = network.encoder()

    def encode(self, x):
        return self.layers(x)


class Decoder(DisentDecoder):
    def __init__(self):
        super().__init__(network.SHAPE, z_size=network.LATENT)
        self.layers = network.decoder()

    def decode(self, z):
        return self.layers(z)


def train(model, images):
    pixels = ArrayDataset(images[..., None] * 255)  # it divides whole numbers by 255
    data = DisentDataset(pixels, transform=ToImgTensorF32())
    loader = DataLoader(data, batch_size=network.BATCH, shuffle=True, num_workers=0)
    kind, numbers = MODELS[model]
    settings = kind.cfg(
        optimizer="adam",
        optimizer_kwargs={"lr": network.LR, "fused": True},
        recon_loss="bce",
        loss_reduction="mean_sum",
        **numbers,
    )
    trainer = lightning.Trainer(
        max_steps=10**6,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(kind(AutoEncoder(Encoder(), Decoder()), settings), loader)
