"""A VAE is six slots; a paper is the set of slots it changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce

import torch
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from untwine.errors import DataError, IncompatibleError, ParameterError
from untwine.parts.latents import (
    GaussianPosterior,
    IdentityMapping,
    NoCorruption,
    SingleLatent,
    StandardNormal,
)
from untwine.parts.likelihoods import Likelihood
from untwine.parts.nets import Network
from untwine.parts.schedules import Weight
from untwine.parts.terms import KL, NegLogLikelihood
from untwine.records import Batch, Latent, Sizes, Trace
from untwine.slots import AdversarialTerm, Corruption, Latents, Posterior, Prior, Term
from untwine.slots import Mapping as MappingSlot

Terms = Mapping[str, tuple[Weight, Callable[[Sizes], Term]]]

ELBO: Terms = {"nll": (1.0, NegLogLikelihood), "kl": (1.0, KL)}


class Objective(nn.Module):
    """A weighted sum of named terms, averaged over the batch; it is minimised."""

    def __init__(self, terms: Mapping[str, tuple[Weight, Term]]) -> None:
        super().__init__()
        self.weights = {name: weight for name, (weight, _) in terms.items()}
        self.terms = nn.ModuleDict({name: term for name, (_, term) in terms.items()})

    def forward(self, trace: Trace) -> dict[str, Tensor]:
        """Every term's value under its name, and their weighted sum under `loss`."""
        values = {name: term(trace).mean() for name, term in self.terms.items()}
        step = trace.batch.step
        weighted = [
            (weight(step) if callable(weight) else weight) * values[name]
            for name, weight in self.weights.items()
        ]
        return {"loss": torch.stack(weighted).sum(), **values}

    def adversaries(self) -> list[AdversarialTerm]:
        return [term for term in self.terms.values() if isinstance(term, AdversarialTerm)]


class VAE(nn.Module):
    """A variational autoencoder: x → corruption → encoder → latents → mapping → decoder → p(x|w).

    Built by `untwine.build`. In `encode`, `decode` and the other methods below images are
    (B, C, H, W) floats in [0, 1]; the model is put in evaluation mode for their duration.
    """

    def __init__(
        self,
        *,
        sizes: Sizes,
        corruption: Corruption,
        encoder: nn.Module,
        latents: Latents,
        mapping: MappingSlot,
        decoder: nn.Module,
        likelihood: Likelihood,
        objective: Objective,
        draws: int = 1,
    ) -> None:
        super().__init__()
        self.sizes, self.draws = sizes, draws
        self.corruption, self.encoder, self.latents = corruption, encoder, latents
        self.mapping, self.decoder, self.likelihood = mapping, decoder, likelihood
        self.objective = objective

    def trace(self, batch: Batch, *, mean: bool = False, features: Tensor | None = None) -> Trace:
        """One pass, with everything it computed.

        With `mean` the code and what is decoded from it are deterministic; a KL that is estimated
        from a sample still is. With `features` the encoder has been through with the batch already.
        """
        target, latents, z = self.infer(batch, mean=mean, features=features)
        w, facts = self.mapping(z)
        px = self.likelihood.observe(self.decoder(w))
        return Trace(batch, target, latents, z, w, px, facts)

    def infer(
        self, batch: Batch, *, mean: bool = False, features: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Latent], Tensor]:
        """The first half of a pass: the target, the latents, and the code z (B, D)."""
        x, target = self.corruption(batch.x)
        if self.training and self.draws > 1:
            x, target, batch = _repeated(x, target, batch, self.draws)
        h = self.encoder(x) if features is None else features
        latents = self.latents(h, batch, self.encoder, mean=mean)
        z = [latent.per_example(mean=mean) for latent in latents.values() if latent.decoded]
        return target, latents, torch.cat(z, -1)

    def given(self, x: Tensor, group: Tensor | None = None) -> Batch:
        """A batch of examples on the model's device, checked at the door."""
        if not isinstance(x, Tensor) or x.shape[1:] != self.sizes.shape or not len(x):
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            wanted = ", ".join(map(str, ("B", *self.sizes.shape)))
            raise DataError(f"this model takes tensors of shape ({wanted}), not {shape}")
        parameter = next(self.parameters())
        if not x.is_floating_point():
            raise DataError(f"this model takes floats, images in [0, 1], not {x.dtype}")
        place = parameter.device
        return Batch(x.to(place, parameter.dtype), None if group is None else group.to(place))

    @torch.no_grad()
    def codes(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(B, D) the posterior mean before the mapping."""
        with evaluation(self), forked(0):  # what is drawn on the way is not used
            return self.infer(self.given(x, group), mean=True)[2]

    @torch.no_grad()
    def encode(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(B, D') the representation: the posterior mean through the mapping."""
        with evaluation(self):
            return self.mapping(self.codes(x, group))[0]

    @torch.no_grad()
    def encode_group(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(R, D) the posterior mean of what each of R groups shares, in the order of their ids."""
        with evaluation(self), forked(0):
            _, latents, _ = self.infer(self.given(x, group), mean=True)
        shared = [latent.draw.mean for latent in latents.values() if latent.rows is not None]
        if not shared:
            raise IncompatibleError("this model has no latent that a group shares; use encode")
        return torch.cat(shared, -1)

    @torch.no_grad()
    def assign(self, x: Tensor) -> Tensor:
        """(B,) the most likely cluster of each example."""
        with evaluation(self), forked(0):
            _, latents, z = self.infer(self.given(x), mean=True)
            known = latents["cluster"].draw.mean if "cluster" in latents else None
            weights = self.mapping(z)[1].get("cluster") if known is None else known
        if weights is None:
            raise IncompatibleError("this model has no clusters; use encode")
        return weights.argmax(-1)

    @torch.no_grad()
    def decode(self, w: Tensor) -> Tensor:
        """(B, *shape) the expected image of a representation (B, D')."""
        with evaluation(self):
            return self.likelihood.observe(self.decoder(w.to(next(self.parameters())))).mean

    @torch.no_grad()
    def sample(self, n: int, *, seed: int | None = None) -> Tensor:
        """(n, *shape) expected images of codes drawn from the model's own prior."""
        with evaluation(self), forked(seed):
            return self.decode(self.mapping(self.latents.sample(n, self.encoder))[0])

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """(B, *shape) the images as the model sees them: encoded to the mean and decoded."""
        return self.decode(self.encode(x))

    @torch.no_grad()
    def traverse(self, x: Tensor, values: Tensor, dims: list[int] | None = None) -> Tensor:
        """Images as one latent at a time takes other values.

        Args:
            x: (*shape) the image to start from.
            values: (V,) what each latent is set to.
            dims: which latents, all by default.

        Returns:
            (len(dims), V, *shape)
        """
        with evaluation(self):
            z = self.codes(x[None])  # (1, D)
            dims = list(range(z.shape[1])) if dims is None else dims
            grid = z.repeat(len(dims), len(values), 1)  # (len(dims), V, D)
            for row, dim in enumerate(dims):
                grid[row, :, dim] = values.to(z)
            images = self.decode(self.mapping(grid.flatten(0, 1))[0])
        return images.unflatten(0, (len(dims), len(values)))

    @torch.no_grad()
    def elbo(self, x: Tensor, *, seed: int | None = None) -> Tensor:
        """The evidence lower bound in nats, averaged over the batch, with one sample each."""
        if not isinstance(self.objective.terms["nll"], NegLogLikelihood):
            raise IncompatibleError(
                "this model weighs the likelihood of each example, so its ELBO is not defined here"
            )
        with evaluation(self), forked(seed):
            trace = self.trace(self.given(x))
            kl = torch.stack([latent.kl.sum() for latent in trace.latents.values()]).sum()
            return trace.px.log_prob(trace.target).mean() - kl / len(x)

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, samples: int = 100, seed: int | None = None) -> Tensor:
        """(B,) log p(x) in nats by importance sampling with K samples from the posterior.

        log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x): a lower bound in expectation, tight as K grows.
        """
        with forked(seed):
            weights = self.log_weights(x, samples)
        return reduce(torch.logaddexp, weights.unbind(1)) - math.log(samples)

    @torch.no_grad()
    def log_weights(self, x: Tensor, samples: int) -> Tensor:
        """(B, K) log p(x|z_k) p(z_k) / q(z_k|x) of samples from the posterior."""
        if samples < 1:
            raise ParameterError(f"importance weights need at least 1 sample, not {samples}")
        batch = self.given(x)
        with evaluation(self):
            features = self.encoder(batch.x)
            traces = (self.trace(batch, features=features) for _ in range(samples))
            return torch.stack([trace.log_weight() for trace in traces], 1)


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
        """The names of the slots that are set, terms apart."""
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
        """The model, after a small batch has gone through it: pieces that do not fit fail here.

        Give the size of the batches it will be trained on where that is less than 4.
        """
        if sizes.latent < 1:
            raise ParameterError(f"a model needs at least 1 latent, not {sizes.latent}")
        sizes = replace(sizes, features=network.features)
        single = partial(
            SingleLatent,
            posterior=self.posterior or GaussianPosterior,
            prior=self.prior or StandardNormal,
        )
        encoder = network.encoder(sizes.shape)
        latents = (self.latents or single)(sizes)
        code = replace(sizes, latent=latents.out_features)
        mapping = (self.mapping or IdentityMapping)(code)
        raw = torch.Size((sizes.shape[0] * likelihood.outputs, *sizes.shape[1:]))
        model = VAE(
            sizes=sizes,
            corruption=(self.corruption or NoCorruption)(sizes),
            encoder=encoder,
            latents=latents,
            mapping=mapping,
            decoder=network.decoder(mapping.out_features, raw),
            likelihood=likelihood,
            objective=Objective(
                {name: (weight, make(code)) for name, (weight, make) in self.all_terms().items()}
            ),
            draws=self.draws or 1,
        )
        convert_conv2d_weight_memory_format(model, torch.channels_last)  # what fast kernels want
        probe(model, min(batch, 4))
        return model

    def all_terms(self) -> Terms:
        """The evidence lower bound with this recipe's terms added or put in place."""
        return {**ELBO, **self.terms}


def _repeated(x: Tensor, target: Tensor, batch: Batch, draws: int) -> tuple[Tensor, Tensor, Batch]:
    """Everything of a batch `draws` times, the copies of an example side by side."""
    x, target = x.repeat_interleave(draws, 0), target.repeat_interleave(draws, 0)
    group = None if batch.group is None else batch.group.repeat_interleave(draws, 0)
    return x, target, Batch(x, group, batch.step)


@torch.no_grad()
def probe(model: VAE, n: int) -> None:
    """Push n examples through the model in both modes and leave no trace of it."""
    before = {name: value.clone() for name, value in model.named_buffers()}
    with forked(0):
        batch = Batch(torch.rand(n, *model.sizes.shape), torch.arange(n) // 2)
        for mode in (False, True):
            model.train(mode)
            trace = model.trace(batch)
            model.objective(trace)
            for adversary in model.objective.adversaries():
                adversary.adversary_loss(trace.z, trace.z)
    for name, value in model.named_buffers():
        value.copy_(before[name])


@contextmanager
def evaluation(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode for the duration of a `with` block."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


@contextmanager
def forked(seed: int | None) -> Iterator[None]:
    """Seed the random numbers inside a `with` block and restore them after it.

    `None` leaves them alone, so that the block draws from the stream outside.
    """
    if seed is None:
        yield
        return
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
