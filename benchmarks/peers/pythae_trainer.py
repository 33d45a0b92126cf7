"""pythae by its TrainingPipeline, with fused Adam."""

import network
import numpy as np
import torch
from pythae.models import VAE, BetaTCVAE, BetaTCVAEConfig, FactorVAE, FactorVAEConfig, VAEConfig
from pythae.models.base.base_utils import ModelOutput
from pythae.models.nn import BaseDecoder, BaseDiscriminator, BaseEncoder
from pythae.pipelines import TrainingPipeline
from pythae.trainers import AdversarialTrainerConfig, BaseTrainerConfig

MODELS = {
    "vae": (VAE, VAEConfig, {}),
    "beta-tcvae": (BetaTCVAE, BetaTCVAEConfig, {"beta": 6.0}),
    "factor-vae": (FactorVAE, FactorVAEConfig, {"gamma": 10.0}),
}
EPOCHS = 1000


class Encoder(BaseEncoder):
    def __init__(self):
        super().__init__()
        self.layers = network.encoder()

    def forward(self, x):
        mean, log_variance = self.layers(x).chunk(2, -1)
        return ModelOutput(embedding=mean, log_covariance=log_variance)


class Decoder(BaseDecoder):
    def __init__(self):
        super().__init__()
        self.layers = network.decoder()

    def forward(self, z):
        return ModelOutput(reconstruction=torch.sigmoid(self.layers(z)))


class Adversary(BaseDiscriminator):
    def __init__(self):
        super().__init__()
        self.layers = network.adversary()

    def forward(self, z):
        return self.layers(z)


def train(model, images):
    kind, config, numbers = MODELS[model]
    sizes = {"input_dim": network.SHAPE, "latent_dim": network.LATENT}
    vae = kind(config(**sizes, reconstruction_loss="bce", **numbers), Encoder(), Decoder())
    if model == "factor-vae":
        vae.set_discriminator(Adversary())
    pipeline = TrainingPipeline(model=vae, training_config=settings(model))
    pipeline(train_data=images[:, None].astype(np.float32))


def settings(model):
    """FactorVAE halves its batch, one half for the permuted codes, so it is given two."""
    fused = {"fused": True}
    if model == "factor-vae":
        return AdversarialTrainerConfig(
            output_dir=".",
            num_epochs=EPOCHS,
            per_device_train_batch_size=2 * network.BATCH,
            autoencoder_learning_rate=network.LR,
            autoencoder_optimizer_params=fused,
            discriminator_learning_rate=network.LR,
            discriminator_optimizer_params=fused | {"betas": (0.5, 0.9)},
        )
    return BaseTrainerConfig(
        output_dir=".",
        num_epochs=EPOCHS,
        per_device_train_batch_size=network.BATCH,
        learning_rate=network.LR,
        optimizer_params=fused,
    )
