"""A VAE is six slots; a paper is the set of slots it changes."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import convert_conv2d_weight_memory_format

from untwine.autoencoder import Autoencoder
from untwine.data.conversion import CHUNK, as_dataset, example_chunks
from untwine.data.opening import open_as
from untwine.distributions import Mixture
from untwine.errors import (
    DataError,
    IncompatibleError,
    MissingLibraryError,
    ParameterError,
)
from untwine.parts.defaults import (
    GaussianPosterior,
    IdentityMapping,
    NoCorruption,
    SingleLatent,
    StandardNormal,
    add_view,
)
from untwine.parts.labels import (
    Condition,
    Given,
    MissingLabels,
)
from untwine.parts.objective import ELBO, Objective, Terms
from untwine.parts.schedules import scale
from untwine.records import (
    Batch,
    Inference,
    Likelihood,
    Network,
    Sampler,
    Sizes,
)
from untwine.slots import Corruption, Latents, Posterior, Prior
from untwine.slots import Mapping as MappingSlot
from untwine.tools.compute import eval_mode, seeded
from untwine.tools.files import expand_user


class VAE(Autoencoder):
    """A variational autoencoder: x → corruption → encoder → latents → mapping → decoder → p(x|w).

    Built by `untwine.build`. In `encode`, `decode` and the other methods below images are
    (B, C, H, W) floats in [0, 1]; the model is put in evaluation mode for their duration.
    """

    def export_onnx(self, folder: str | Path) -> list[Path]:
        """Write encoder.onnx (images to codes) and decoder.onnx (codes to images) to a folder.

        Both take batches of any size. Where onnxruntime is installed, they are checked with it.
        """
        from untwine.tools.onnx import check_file, export_function

        path = expand_user(folder)
        path.mkdir(parents=True, exist_ok=True)
        device = next(self.parameters()).device
        model = copy.deepcopy(self).cpu().eval() if device.type != "cpu" else self
        with seeded(0), eval_mode(model):
            x = torch.rand(4, *self.sizes.shape)
            w = model.encode(x)
            halves = [
                ("encoder", "images", "codes", x, model.encode_graph),
                ("decoder", "codes", "images", w, model.decode_graph),
            ]
            files: list[Path] = []
            for name, source, target, example, function in halves:
                file = path / f"{name}.onnx"
                export_function(
                    file, model, function, example, input_name=source, output_name=target
                )
                with contextlib.suppress(MissingLibraryError), torch.no_grad():
                    for batch in (example[:1], example.repeat(2, *[1] * (example.ndim - 1))):
                        check_file(file, batch, function(batch))
                files.append(file)
        return files

    def encode_graph(self, x: Tensor) -> Tensor:
        """`encode` of checked examples on the model's device, without leaving the graph."""
        return self.mapping(self.infer(Batch(x), mean=True).z)[0]

    def decode_graph(self, w: Tensor) -> Tensor:
        """`decode` of codes on the model's device, without leaving the graph."""
        return self.likelihood.observe(self.decoder(w)).mean

    @torch.no_grad()
    def infer_means(self, x: Tensor, group: Tensor | None = None) -> Inference:
        """Infer deterministic codes of examples (B, *shape), in evaluation mode."""
        with eval_mode(self), seeded(0):  # samples drawn on the way are not used
            return self.infer(self.as_batch(x, group), mean=True)

    def posterior_mean(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(B, D) posterior means z, before the mapping."""
        return self.infer_means(x, group).z

    @torch.no_grad()
    def encode(self, x: Any, group: Tensor | None = None) -> Any:
        """(B, D') representations w: posterior means after the mapping.

        A tensor gives a tensor. A dataset, or anything that `as_dataset` takes, gives an array; a
        folder or file is read as the training data was.
        """
        if not isinstance(x, Tensor):
            codes = [model.encode(chunk).cpu() for model, chunk in self._chunks(x)]
            return torch.cat(codes).numpy()
        return self.map_latents(self.posterior_mean(x, group))

    def _chunks(self, x: Any) -> Iterator[tuple[Self, Tensor]]:
        """Examples of anything that `as_dataset` takes, with this model for their labels."""
        if isinstance(x, str | Path):
            x = open_as(self.card.data if self.card else "", str(x), self.sizes.shape)
        data = as_dataset(x, like=self.columns) if self.labels else x
        chunks = example_chunks(data, self.sizes.shape, self.columns)
        if isinstance(self.encoder, Given) and len(self.encoder.levels) > 1:
            chunks = iter([torch.cat(list(chunks))])  # as it was given the labels of all at once
        start = 0
        for chunk in chunks:
            yield self.given_data(data, np.arange(start, start + len(chunk))), chunk
            start += len(chunk)

    def encode_group(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(R, D) posterior means of the latents that R groups share, ordered by group id."""
        latents = self.infer_means(x, group).latents.values()
        shared = [latent.draw.mean for latent in latents if latent.rows is not None]
        if not shared:
            raise IncompatibleError("this model has no latent that a group shares; use encode")
        return torch.cat(shared, -1)

    def assign(self, x: Tensor) -> Tensor:
        """(B,) index of the most likely cluster of each example."""
        weights = self.cluster_weights(self.infer_means(x))
        if weights is None:
            raise IncompatibleError("this model has no clusters; use encode")
        return weights.argmax(-1)

    @torch.no_grad()
    def cluster_weights(self, inferred: Inference) -> Tensor | None:
        """(B, K) probabilities of the clusters; None for a model without clusters.

        They are a latent named `cluster`, a tensor of that name that the mapping reports, or, by
        Bayes' rule, the components of a prior that has clusters.
        """
        if "cluster" in inferred.latents:
            return inferred.latents["cluster"].draw.mean
        with eval_mode(self):
            weights = self.mapping(inferred.z)[1].get("cluster")
        if weights is not None:
            return weights
        p = next(iter(inferred.latents.values())).p
        if getattr(getattr(self.latents, "prior", None), "has_clusters", False):
            assert isinstance(p, Mixture), "a prior with clusters is a mixture"
            return p.log_joint(inferred.z).softmax(-1)
        return None

    @torch.no_grad()
    def decode(self, w: Any) -> Any:
        """(B, *shape) expected images of representations (B, D'); an array gives an array.

        An array of any length is decoded in chunks, a tensor at once.
        """
        if not isinstance(w, Tensor):
            codes = torch.as_tensor(np.asarray(w, np.float32))
            if codes.dim() != 2 or codes.shape[1] != self.mapping.out_features:
                raise DataError(
                    f"codes of this model have shape (B, {self.mapping.out_features}), "
                    f"not {tuple(codes.shape)}"
                )
            if isinstance(self.decoder, Given) and len(self.decoder.levels) > 1:
                return self.decode(codes).cpu().numpy()  # as it has the labels of all at once
            return torch.cat([self.decode(chunk).cpu() for chunk in codes.split(CHUNK)]).numpy()
        with eval_mode(self):
            return self.likelihood.observe(self.decoder(w.to(next(self.parameters())))).mean

    @torch.no_grad()
    def map_latents(self, z: Tensor) -> Tensor:
        """(B, D') codes w, which the decoder sees, of codes z (B, D)."""
        with eval_mode(self):
            return self.mapping(z.to(next(self.parameters())))[0]

    def decode_latents(self, z: Tensor) -> Tensor:
        """(B, *shape) expected images of codes z (B, D), before the mapping."""
        return self.decode(self.map_latents(z))

    @torch.no_grad()
    def sample_latents(
        self, n: int, *, seed: int | None = None, sampler: Sampler = "own"
    ) -> Tensor:
        """(n, D) codes z drawn from the model's own prior, or from N(0, I)."""
        with eval_mode(self), seeded(seed):
            if sampler == "normal":
                return torch.randn(n, self.latents.out_features).to(next(self.parameters()))
            return self.latents.sample(n, self.encoder)

    @torch.no_grad()
    def sample_codes(self, x: Tensor, *, seed: int | None = None) -> Tensor:
        """(B, D') one draw from the posterior of each example, after the mapping."""
        with eval_mode(self), seeded(seed):
            return self.map_latents(self.infer(self.as_batch(x)).z)

    @torch.no_grad()
    def sample(
        self,
        n: int,
        *,
        seed: int | None = None,
        noise: bool = False,
        sampler: Sampler = "own",
    ) -> Tensor:
        """(n, *shape) expected images of codes drawn from the model's own prior, or from N(0, I).

        With `noise`, data drawn from p(x|w) instead of its mean. A conditional model takes the
        levels of its labels in turn; `given` chooses them.
        """
        model = self.given_in_turn(n)
        with eval_mode(model), seeded(seed):
            w = model.map_latents(model.sample_latents(n, sampler=sampler))
            px = model.likelihood.observe(model.decoder(w))
            return px.sample() if noise else px.mean

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """(B, *shape) reconstructions: examples encoded to the mean and decoded."""
        return self.decode(self.encode(x))

    @torch.no_grad()
    def traverse(self, x: Tensor, values: Tensor, dims: list[int] | None = None) -> Tensor:
        """Decode images while one latent at a time takes other values.

        Args:
            x: (*shape) the image to start from.
            values: (V,) the values each latent takes.
            dims: indices of the latents; all by default.

        Returns:
            (len(dims), V, *shape)
        """
        with eval_mode(self):
            z = self.posterior_mean(x[None])  # (1, D)
            dims = list(range(z.shape[1])) if dims is None else dims
            grid = z.repeat(len(dims), len(values), 1)  # (len(dims), V, D)
            for row, dim in enumerate(dims):
                grid[row, :, dim] = values.to(z)
            images = self.decode_latents(grid.flatten(0, 1))
        return images.unflatten(0, (len(dims), len(values)))

    @torch.no_grad()
    def elbo(self, x: Tensor, *, seed: int | None = None) -> Tensor:
        """The evidence lower bound in nats, averaged over the batch, with one sample each."""
        if not self.has_elbo:
            raise IncompatibleError(
                "this model weighs the likelihood of each example, so its ELBO is not defined here"
            )
        with eval_mode(self), seeded(seed):
            return self.elbo_of(self.trace(self.as_batch(x)))

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, samples: int = 100, seed: int | None = None) -> Tensor:
        """(B,) log p(x) in nats by importance sampling with K samples from the posterior.

        log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x): a lower bound in expectation, tight as K grows.
        """
        with seeded(seed):
            weights = self.log_weights(x, samples)
        return reduce(torch.logaddexp, weights.unbind(1)) - math.log(samples)

    @torch.no_grad()
    def log_weights(self, x: Tensor, samples: int) -> Tensor:
        """(B, K) log importance weights p(x|z_k) p(z_k) / q(z_k|x) of posterior samples."""
        if samples < 1:
            raise ParameterError(f"importance weights need at least 1 sample, not {samples}")
        batch = self.as_batch(x)
        with eval_mode(self):
            features = self.features(batch.x)
            weights = features.new_empty(len(batch.x), samples)  # small results kept one by one
            for k in range(samples):  # would leave holes between the large tensors of the passes
                weights[:, k] = self.trace(batch, features=features).log_weight()
        return weights


@dataclass(frozen=True)
class Recipe:
    """The slots one paper changes; `None` leaves the default, `a | b` merges.

    >>> from untwine.models import beta_vae, vae
    >>> (vae() | beta_vae(beta=2.0)).terms["kl"][0]
    2.0
    """

    corruption: Callable[[Sizes], Corruption] | None = None
    posterior: Callable[[Sizes], Posterior] | None = None
    prior: Callable[[Sizes], Prior] | None = None
    latents: Callable[[Sizes], Latents] | None = None
    mapping: Callable[[Sizes], MappingSlot] | None = None
    condition: Condition | None = None  # labels that encoder and decoder see
    terms: Terms = field(default_factory=dict)
    draws: int | None = None  # samples of z per example while training

    def __post_init__(self) -> None:
        for name in self.terms:
            if not name.isidentifier() or name in {"loss", "step"}:
                raise IncompatibleError(
                    f"a term cannot be named {name!r}; use letters, digits and underscores, and "
                    "not 'loss' or 'step', which the history uses"
                )
        fixed = self.slots() & {"posterior", "prior"}
        if self.latents and fixed:
            raise IncompatibleError(
                f"one recipe replaces all latents and another the {' and the '.join(sorted(fixed))}"
                "; use only one of them"
            )

    def slots(self) -> set[str]:
        """Names of the slots that are set, without the terms."""
        return {f.name for f in fields(self) if f.name != "terms" and getattr(self, f.name)}

    def __or__(self, other: Recipe) -> Recipe:
        clash = sorted((self.slots() & other.slots()) | (self.terms.keys() & other.terms.keys()))
        if clash:
            raise IncompatibleError(f"both recipes set {clash}; use only one of them")
        theirs = {slot: getattr(other, slot) for slot in other.slots()}
        return replace(self, **theirs, terms={**self.terms, **other.terms})

    def build(
        self, sizes: Sizes, network: Network, likelihood: Likelihood, *, batch: int = 4
    ) -> VAE:
        """Build the model and run a small batch through it: parts that do not fit fail here.

        Pass the batch size of the training if it is below 4.
        """
        model = self.assemble(sizes, network, likelihood)
        probe(model, batch)
        return model

    def assemble(self, sizes: Sizes, network: Network, likelihood: Likelihood) -> VAE:
        """Make the parts of the model; `probe` then finds those that do not fit."""
        if sizes.latent < 1:
            raise ParameterError(f"a model needs at least 1 latent, not {sizes.latent}")
        likelihood_weight = likelihood.weight(sizes.shape)
        sizes = replace(sizes, features=network.features, likelihood_weight=likelihood_weight)
        single = partial(
            SingleLatent,
            posterior=self.posterior or GaussianPosterior,
            prior=self.prior or StandardNormal,
        )
        network = add_view(network, likelihood)
        if self.condition:
            network = self.condition.wrap(network, sizes.labels)
        encoder = network.encoder(sizes.shape)
        latents = (self.latents or single)(sizes)
        code = replace(sizes, latent=latents.out_features)
        mapping = (self.mapping or IdentityMapping)(code)
        terms = dict(self.all_terms())
        terms["nll"] = (scale(terms["nll"][0], likelihood_weight), terms["nll"][1])
        raw = torch.Size((sizes.shape[0] * likelihood.outputs, *sizes.shape[1:]))
        model = VAE(
            sizes=replace(sizes, draw_examples=None),  # a model must not keep its data alive
            corruption=(self.corruption or NoCorruption)(sizes),
            encoder=encoder,
            latents=latents,
            mapping=mapping,
            decoder=network.decoder(mapping.out_features, raw),
            likelihood=likelihood,
            objective=Objective(
                {name: (weight, make(code)) for name, (weight, make) in terms.items()}
            ),
            draws=self.draws or 1,
        )
        if network.start:
            network.start(model)
        convert_conv2d_weight_memory_format(model, torch.channels_last)  # as fast kernels need
        return model

    def all_terms(self) -> Terms:
        """The terms of the ELBO, extended or replaced by those of this recipe."""
        return {**ELBO, **self.terms}


def probe(model: VAE, batch_size: int) -> None:
    """Run a small batch through the model: parts that do not fit fail here."""
    try:
        _run_in_both_modes(model, min(batch_size, 4))
    except MissingLabels:
        raise IncompatibleError(
            "a conditional model knows the labels of data alone, and another part encodes "
            "inputs of its own; leave out one of them"
        ) from None


@torch.no_grad()
def _run_in_both_modes(model: VAE, n: int) -> None:
    """Run n examples through the model; its state stays as it was."""
    before = {name: value.clone() for name, value in model.named_buffers()}
    with seeded(0):
        labels = torch.zeros(n, len(model.labels), dtype=torch.long) if model.labels else None
        x = torch.rand(n, *model.sizes.shape)
        batch = Batch(x, torch.arange(n) // 2, labels=labels)
        for mode in (False, True):
            model.train(mode)
            trace = model.trace(batch)
            model.objective(trace)
            for adversary in model.objective.adversaries():
                adversary.adversary_loss(trace.z, trace.z)
    for name, value in model.named_buffers():
        value.copy_(before[name])
