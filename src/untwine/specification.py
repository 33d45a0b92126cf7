"""How a run is written down: its names and numbers, and the hash of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from untwine import schema
from untwine.errors import ParameterError, UnknownNameError
from untwine.optimisers import Training
from untwine.plugins import Plugin
from untwine.registry import (
    Choice,
    datasets,
    likelihoods,
    models,
    networks,
    require_plugins,
)

NUMBER_BOUNDS = {
    "latent": (1, schema.MAX_WIDTH),
    "batch": (1, schema.MAX_COUNT),
    "steps": (1, 10**12),
    "seed": (0, 2**63 - 1),
}

NUMBERS = ("latent", "batch", "steps", "lr", "seed")
"""Fields of a run that are numbers."""
OPTIONS = tuple(f.name for f in fields(Training))
"""Fields of a run's training, which are left out where they have their defaults."""


@dataclass(frozen=True)
class Run:
    """Everything that determines a trained model; survives JSON, and its hash names it."""

    model: tuple[Choice, ...]
    data: Choice
    network: Choice
    likelihood: Choice
    latent: int = 10
    batch: int = 64
    steps: int = 10_000
    lr: float = 1e-4
    seed: int = 0
    training: Training = field(default_factory=Training)
    plugins: tuple[Plugin, ...] = ()  # that the pieces come from

    def __post_init__(self) -> None:
        parts = [models.choose(part.name, **part.params) for part in self.model]
        pieces = {
            "model": tuple(sorted(parts, key=lambda part: part.name)),  # a+b is b+a
            "data": datasets.choose(self.data.name, **self.data.params),
            "network": networks.choose(self.network.name, **self.network.params),
            "likelihood": likelihoods.choose(self.likelihood.name, **self.likelihood.params),
            "lr": _rate(self.lr),
        }
        for name, value in pieces.items():
            object.__setattr__(self, name, value)
        for name, (least, most) in NUMBER_BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ParameterError(
                    f"{name} must be a whole number from {least} to {most}, not {value!r}"
                )
        if not 0 < self.lr < float("inf"):
            raise ParameterError(f"lr must be a number above 0, not {self.lr}")

    @property
    def numbers(self) -> dict[str, int | float]:
        """The numbers of the training, by name."""
        return {name: getattr(self, name) for name in NUMBERS}

    @property
    def model_name(self) -> str:
        return "+".join(part.name for part in self.model)

    @property
    def hash(self) -> str:
        """Twelve characters that stand for the whole specification.

        Numbers at their defaults are left out, so that a new parameter does not rename old runs.
        Data with a digest counts by its content, wherever it lies, and so do plug-ins.
        """
        data = datasets.non_default(self.data)
        if data.get("digest"):
            data.pop("path", None)
        content = {
            **self.numbers,
            **self.training.changed(),
            "model": [models.non_default(part) for part in self.model],
            "data": data,
            "network": networks.non_default(self.network),
            "likelihood": likelihoods.non_default(self.likelihood),
        }
        if self.plugins:
            content["plugins"] = sorted(plugin.hash for plugin in self.plugins)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def directory(self) -> str:
        """What the run's directory is called."""
        return f"{self.model_name}-{self.data.name}-{self.hash}"

    def __repr__(self) -> str:
        models_text = " + ".join(models.expression(part) for part in self.model)
        data = datasets.expression(self.data)
        return f"<Run {self.hash}: {models_text} on {data}, {self.steps:,} steps, seed {self.seed}>"

    def to_json(self) -> dict[str, Any]:
        choices = {
            "model": [part.to_json() for part in self.model],
            "data": self.data.to_json(),
            "network": self.network.to_json(),
            "likelihood": self.likelihood.to_json(),
        }
        made_with = [plugin.to_json() for plugin in self.plugins]
        plugins = {"plugins": made_with} if made_with else {}
        return {**choices, **self.numbers, **self.training.changed(), **plugins}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        names = {f.name for f in fields(cls) if f.name != "training"} | {*OPTIONS}
        for key in data:
            if key not in names:
                raise UnknownNameError(schema.unknown_name("entry of a run", key, sorted(names)))
        made_with = tuple(Plugin.from_json(plugin) for plugin in data.get("plugins", ()))
        require_plugins(made_with)
        choices = {
            "model": tuple(map(Choice.from_json, data["model"])),
            **{kind: Choice.from_json(data[kind]) for kind in ("data", "network", "likelihood")},
        }
        training = Training(**{key: data[key] for key in OPTIONS if key in data})
        rest = {key: value for key, value in data.items() if key not in OPTIONS}
        return cls(**{**rest, **choices, "training": training, "plugins": made_with})


def _rate(lr: Any) -> float:
    try:
        return float(lr)
    except (TypeError, ValueError):
        raise ParameterError(f"lr must be a number above 0, not {lr!r}") from None
