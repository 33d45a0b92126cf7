"""The records that all parts share. All are frozen: terms, metrics and plots only read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.plugins import Plugin
from untwine.registry import Choice, likelihoods, models, networks, plugins_of, require_plugins

T = TypeVar("T")
Labels = Mapping[str, tuple[str, ...]]
"""The labels of a conditional model: factors by name, with the names of their levels."""
Sampler = Literal["own", "normal"]
"""Where codes are drawn from: the model's own prior, or N(0, I)."""


class Density(Protocol):
    """A distribution over vectors (..., D) that can be sampled and evaluated."""

    def sample(self, shape: tuple[int, ...] = ...) -> Tensor: ...

    def log_prob(self, z: Tensor) -> Tensor: ...


class Observation(Protocol):
    """p(x|w), the distribution of the data that the decoder defines."""

    @property
    def mean(self) -> Tensor:
        """(B, *shape) expected data."""
        ...

    def log_prob(self, x: Tensor) -> Tensor:
        """(B,) log-density, summed over all pixels and channels."""
        ...

    def sample(self) -> Tensor:
        """(B, *shape) data drawn from the distribution."""
        ...


ACTIVE_NATS = 0.05  # below which a latent counts as unused


@dataclass(frozen=True)
class Likelihood:
    """How many raw values per pixel the decoder produces, and the distribution they define."""

    observe: Callable[[Tensor], Observation]
    outputs: int = 1
    pixels: int = 0  # how many the training objective counts; 0: as many as an image has
    view: Callable[[Tensor], Tensor] | None = None  # how the encoder sees data of this kind

    def weight(self, shape: torch.Size) -> float:
        """The weight of log p(x|w) in the training objective, for examples of this shape."""
        if not self.pixels:
            return 1.0
        if not is_image(shape):
            raise IncompatibleError(
                f"pixels={self.pixels} of a likelihood is for images, and examples of shape "
                f"{tuple(shape)} are none; leave it out"
            )
        return self.pixels / (shape[1] * shape[2])


@dataclass(frozen=True)
class Network:
    """Makes encoders (B, *shape) -> (B, features) and decoders (B, d) -> (B, *shape).

    `start`, if given, sets the initial weights of the whole model, once it is assembled.
    """

    features: int
    encoder: Callable[[torch.Size], nn.Module]
    decoder: Callable[[int, torch.Size], nn.Module]
    start: Callable[[nn.Module], object] | None = None


def is_image(shape: torch.Size) -> bool:
    return len(shape) == 3


@dataclass(frozen=True)
class Columns:
    """The columns of a table: their names, and the numbers by which they were standardised.

    >>> table = Columns(("height", "age"), mean=(1.7, 40.0), deviation=(0.1, 20.0))
    >>> table.restore(table.standardise(np.array([[1.8, 30.0]]))).round(3).tolist()
    [[1.8, 30.0]]
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]  # zeros where columns are as they came
    deviation: tuple[float, ...]  # ones where columns are as they came

    @property
    def are_standardised(self) -> bool:
        return any(self.mean) or any(value != 1 for value in self.deviation)

    def standardise(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """(N, D) values in their own units as the model sees them."""
        scaled = (np.asarray(values, np.float64) - self.mean) / self.deviation
        return scaled.astype(np.float32)

    def restore(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(N, D) values as the model sees them in their own units."""
        return np.asarray(values, np.float64) * self.deviation + self.mean

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Columns:
        return cls(*(tuple(data[key]) for key in ("names", "mean", "deviation")))


def columns_of(preparation: Mapping[str, Any]) -> Columns | None:
    """The columns of a table from how its examples are prepared."""
    content = preparation.get("columns")
    return None if content is None else Columns.from_json(content)


@dataclass(frozen=True)
class Sizes:
    """The sizes a part is built from: the one argument of every slot's constructor."""

    shape: torch.Size  # of one example: (C, H, W) or (D,)
    latent: int = 10
    features: int = 256  # width of the encoder's output
    n_train: int = 1000  # number of training examples
    likelihood_weight: float = 1.0  # of log p(x|w) in the objective
    draw_examples: Callable[[int], Tensor] | None = None  # for parts that start from data
    labels: Labels = field(default_factory=dict[str, tuple[str, ...]])  # of a conditional model


def _zero() -> Tensor:
    return torch.zeros((), dtype=torch.long)


@dataclass(frozen=True)
class Batch:
    """The examples of one training step."""

    x: Tensor  # (B, *shape)
    group: Tensor | None = None  # (B,) the group of each example
    step: Tensor = field(default_factory=_zero)  # () optimiser steps so far, for schedules
    labels: Tensor | None = None  # (B, F) the levels of each example, for conditional models


@dataclass(frozen=True)
class Draw:
    """A sample from a posterior, with its density if it has one."""

    z: Tensor  # (B, D)
    mean: Tensor  # (B, D) the deterministic value
    q: Density | None = None  # None when only samples are available, as from a flow
    log_density: Tensor | None = None  # (B,) log q(z|x), needed when q is None

    @property
    def log_q(self) -> Tensor:
        """(B,) log q(z|x) at the sample."""
        if self.log_density is not None:
            return self.log_density
        assert self.q is not None, "a draw has a density or its log-density"
        return self.q.log_prob(self.z)


@dataclass(frozen=True)
class Latent:
    """One latent variable with R rows; `rows[b]` is the row of example b (None: R = B)."""

    draw: Draw
    kl: Tensor  # (R,) KL(q ‖ p), exact where possible
    p: Density | None = None  # the prior
    rows: Tensor | None = None  # (B,)
    feeds_decoder: bool = True  # whether the decoder sees it

    def per_example(self, *, mean: bool = False) -> Tensor:
        """(B, D) samples, or deterministic values, of all examples."""
        value = self.draw.mean if mean else self.draw.z
        return value if self.rows is None else value[self.rows]

    def log_ratio(self) -> Tensor:
        """(B,) log q(z|x) − log p(z) at the sample."""
        if self.p is None or self.rows is not None:
            raise IncompatibleError(
                "importance weights need latents with a prior density and a row per example"
            )
        return self.draw.log_q - self.p.log_prob(self.draw.z)


def _empty() -> dict[Hashable, Any]:
    return {}


@dataclass(frozen=True)
class Inference:
    """The result of the first half of a pass: encoder and latents."""

    target: Tensor  # (B, *shape) the data to reconstruct
    latents: Mapping[str, Latent]
    z: Tensor  # (B, D) the code, before the mapping


@dataclass(frozen=True)
class Trace:
    """Everything that one pass through the model computed."""

    batch: Batch
    target: Tensor  # (B, *shape) the data to reconstruct
    latents: Mapping[str, Latent]
    z: Tensor  # (B, D) the code, before the mapping
    w: Tensor  # (B, D') the code after the mapping, which the decoder sees
    px: Observation
    extras: Mapping[str, Tensor]  # named tensors that the mapping reports
    shared: dict[Hashable, Any] = field(init=False, default_factory=_empty)  # cache of `once`

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of `compute()`, computed once per key and shared by all terms."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]

    @property
    def draws(self) -> int:
        """Samples of z per example, in adjacent rows; 1 except for bounds from several samples."""
        return len(self.target) // len(self.batch.x)

    def density(self, asked_by: object) -> Gaussian:
        """The factorised Gaussian posterior of the only latent.

        Models with other latents are refused, in an error that names `asked_by`.
        """
        only = next(iter(self.latents.values()))
        if len(self.latents) == 1 and only.rows is None and isinstance(only.draw.q, Gaussian):
            return only.draw.q
        raise IncompatibleError(
            f"{type(asked_by).__name__} needs one latent per example with a factorised Gaussian "
            "posterior; leave out the part that replaces it"
        )

    def log_weight(self, likelihood_weight: float = 1.0) -> Tensor:
        """(B,) log importance weight of the sample, log p(x|z) + log p(z) − log q(z|x).

        `likelihood_weight` multiplies log p(x|z), for use in an objective.
        """
        log_ratios = [latent.log_ratio() for latent in self.latents.values()]
        return likelihood_weight * self.px.log_prob(self.target) - torch.stack(log_ratios).sum(0)


@dataclass(frozen=True)
class LatentProfile:
    """What one latent does on the training data."""

    nats: float  # how much it says
    exact: bool  # whether that is the mean KL, or an estimate
    mean: float  # of the posterior means
    deviation: float  # of the posterior means
    low: float  # the ends of the central 97 % of the posterior means
    high: float

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> LatentProfile:
        return cls(**{one.name: content[one.name] for one in fields(cls)})


@dataclass(frozen=True)
class ModelCard:
    """The names and numbers a model is built from: with its weights, all that is needed to use it.

    Training adds the profile of each latent.
    """

    model: tuple[Choice, ...]
    network: Choice
    likelihood: Choice
    latent: int
    shape: tuple[int, ...]  # of one example
    n_train: int  # number of training examples; 1 if unknown
    data: str = ""  # the training data as a person writes it, without paths
    preparation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How examples are made from the user's files: size, resize filter, scaling."""
    latents: tuple[LatentProfile, ...] = ()
    labels: Labels = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def model_name(self) -> str:
        return "+".join(part.name for part in self.model)

    @property
    def columns(self) -> Columns | None:
        """The columns of the table that the model is for; None for other data."""
        return columns_of(self.preparation)

    def to_json(self) -> dict[str, Any]:
        parts = [*(models[part.name] for part in self.model), networks[self.network.name]]
        made_with = plugins_of([*parts, likelihoods[self.likelihood.name]])
        content = asdict(self)
        if not self.labels:
            content.pop("labels")
        return {
            **content,
            **({"plugins": [plugin.to_json() for plugin in made_with]} if made_with else {}),
            "model": [part.to_json() for part in self.model],
            "network": self.network.to_json(),
            "likelihood": self.likelihood.to_json(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ModelCard:
        """The card that `to_json` wrote; raises KeyError, TypeError or UntwineError for others."""
        require_plugins([Plugin(**plugin) for plugin in content.get("plugins", ())])
        return cls(
            model=tuple(models.from_json(part) for part in content["model"]),
            network=networks.from_json(content["network"]),
            likelihood=likelihoods.from_json(content["likelihood"]),
            latent=int(content["latent"]),
            shape=tuple(int(side) for side in content["shape"]),
            n_train=int(content["n_train"]),
            data=str(content["data"]),
            preparation=dict(content["preparation"]),
            latents=tuple(map(LatentProfile.from_json, content["latents"])),
            labels={name: tuple(levels) for name, levels in content.get("labels", {}).items()},
        )
