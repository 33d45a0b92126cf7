"""Labels that encoder and decoder see: the levels of some factors of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from untwine.data.dataset import Dataset
from untwine.data.derived import column, columns, normalise_name
from untwine.errors import DataError, IncompatibleError, ParameterError
from untwine.records import Labels, Network
from untwine.schema import unknown_name

MAX_LEVELS_SHOWN = 12


@dataclass(frozen=True)
class Condition:
    """Lets encoder and decoder see labels."""

    on: str  # the names of factors, as in `shape+scale`; empty for all

    def labels(self, data: Dataset) -> Labels:
        """The factors that are labels here, with the names of their levels."""
        if data.factors is None:
            raise IncompatibleError(
                "a conditional model needs data with labels, and this has none; name them with "
                "--set folder.labels=folders or --set table.factors=COLUMN, or in Python with "
                "untwine.as_dataset(images, labels)"
            )
        factors = data.factors
        every = range(len(factors.names))
        return {
            factors.names[k]: tuple(factors.level_name(k, i) for i in range(factors.sizes[k]))
            for k in (columns(factors, self.on) if self.on else every)
        }

    def wrap(self, network: Network, labels: Labels) -> Network:
        """The network with an encoder and a decoder that take labels (B, F) as well."""
        if not labels:
            raise IncompatibleError("a conditional model needs the names of its labels")
        width = sum(map(len, labels.values()))
        return replace(
            network,
            encoder=lambda shape: LabelledEncoder(network.encoder(shape), network.features, labels),
            decoder=lambda code, shape: LabelledDecoder(
                network.decoder(code + width, shape), labels
            ),
        )


class MissingLabels(IncompatibleError):
    """Inputs that encoder or decoder see without their labels."""

    def __init__(self, labels: Labels) -> None:
        name, levels = next(iter(labels.items()))
        super().__init__(
            f"this model needs the labels of what it encodes and decodes ({', '.join(labels)}); "
            f"give them, as in --label {name}={levels[0]} or model.given({{{name!r}: "
            f"{levels[0]!r}}})"
        )


class OneHot(nn.Module):
    """Levels (B, F) of F labels as (B, K) zeros and ones, a one for each label."""

    starts: Tensor  # (F,) the column of the first level of each label

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        ends = np.cumsum([len(levels) for levels in labels.values()])
        self.labels, self.width = labels, int(ends[-1])
        starts = torch.tensor([0, *ends[:-1].tolist()])
        self.register_buffer("starts", starts, persistent=False)

    def forward(self, levels: Tensor | None, like: Tensor) -> Tensor:
        if levels is None:
            raise MissingLabels(self.labels)
        zeros = like.new_zeros(levels.shape[0], self.width)
        return zeros.scatter(1, levels + self.starts, 1.0)


class LabelledEncoder(nn.Module):
    """A layer more than the encoder of a network, which joins its features with the labels."""

    def __init__(self, encoder: nn.Module, features: int, labels: Labels) -> None:
        super().__init__()
        self.one_hot = OneHot(labels)
        self.encoder = encoder
        self.join = nn.Linear(features + self.one_hot.width, features)

    def forward(self, x: Tensor, levels: Tensor | None = None) -> Tensor:
        labels = self.one_hot(levels, self.join.weight)
        return self.join(torch.cat([self.encoder(x), labels], -1)).relu()


class LabelledDecoder(nn.Module):
    """The decoder of a network, which sees the labels beside the code."""

    def __init__(self, decoder: nn.Module, labels: Labels) -> None:
        super().__init__()
        self.one_hot = OneHot(labels)
        self.decoder = decoder

    def forward(self, w: Tensor, levels: Tensor | None = None) -> Tensor:
        return self.decoder(torch.cat([w, self.one_hot(levels, w)], -1))


class Given(nn.Module):
    """An encoder or decoder whose labels are set: one row (1, F) for all inputs, or a row each."""

    levels: Tensor

    def __init__(self, module: nn.Module, levels: Tensor) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("levels", levels, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if len(self.levels) == 1:
            return self.module(x, self.levels.expand(x.shape[0], -1))  # any size, also in ONNX
        if len(self.levels) != len(x):
            raise DataError(
                f"there are labels of {len(self.levels)} examples, but {len(x)} examples; give one "
                "label for all, or one for each"
            )
        return self.module(x, self.levels)


def levels_of(labels: Labels, data: Dataset, index: NDArray[np.integer]) -> NDArray[np.int64]:
    """(B, F) levels of the labels of examples; levels of the data are matched by name."""
    if data.factors is None:
        names = ", ".join(labels)
        raise DataError(
            f"this model needs the labels of its examples ({names}), and this data has none; take "
            "data that has, or name one for all examples (--label NAME=LEVEL, model.given)"
        )
    factors, parts = data.factors, list[NDArray[np.int64]]()
    table = factors.levels_at(index)
    for name, levels in labels.items():
        k = column(factors, name)
        numbers = {level: number for number, level in enumerate(levels)}
        own = [factors.level_name(k, i) for i in range(factors.sizes[k])]
        known = np.array([numbers.get(level, -1) for level in own])
        part = known[table[:, k]]
        if (part < 0).any():
            strange = own[int(table[part < 0, k][0])]
            raise DataError(f"{unknown_level(name, strange, levels)}")
        parts.append(part)
    return np.stack(parts, 1)


def chosen_levels(labels: Labels, chosen: Mapping[str, Any]) -> Tensor:
    """(B, F) levels from what a person names: a level's name or number, or one for each example.

    >>> labels = {"shape": ("square", "heart"), "scale": ("0", "1", "2")}
    >>> chosen_levels(labels, {"shape": ["heart", "square"], "scale": 2}).tolist()
    [[1, 2], [0, 2]]
    """
    own_names = {normalise_name(name): name for name in labels}
    by_name: dict[str, Any] = {}
    for name, level in chosen.items():
        if normalise_name(name) not in own_names:
            raise ParameterError(unknown_name("label of this model", name, labels))
        by_name[own_names[normalise_name(name)]] = level
    missing = [name for name in labels if name not in by_name]
    if missing:
        raise ParameterError(f"this model needs a level of {' and of '.join(missing)}; name it")
    parts = [_level_numbers(name, levels, by_name[name]) for name, levels in labels.items()]
    rows = max(map(len, parts))
    for name, part in zip(labels, parts, strict=True):
        if len(part) not in (1, rows):
            raise ParameterError(f"{name} has {len(part)} levels where others have {rows}")
    return torch.tensor([part * (rows if len(part) == 1 else 1) for part in parts]).T


def _level_numbers(name: str, levels: Sequence[str], chosen: Any) -> list[int]:
    """The numbers of some levels, each named or numbered."""
    if isinstance(chosen, Tensor | np.ndarray):
        chosen = chosen.tolist()
    wanted: list[Any] = list(chosen) if isinstance(chosen, list | tuple | range) else [chosen]
    if not wanted:
        raise ParameterError(f"{name} has no levels; give at least one")
    return [_level_number(name, levels, level) for level in wanted]


def _level_number(name: str, levels: Sequence[str], level: Any) -> int:
    if isinstance(level, int | np.integer) and not isinstance(level, bool):
        if 0 <= level < len(levels):
            return int(level)
    elif level in levels:
        return levels.index(level)
    raise ParameterError(unknown_level(name, str(level), levels))


def unknown_level(name: str, level: str, levels: Sequence[str]) -> str:
    """The sentence for a level that a model was not trained with."""
    more = len(levels) - MAX_LEVELS_SHOWN
    shown = [*levels[:MAX_LEVELS_SHOWN], *([f"{more} more"] if more > 0 else [])]
    return f"this model has not seen {name} {level!r}; the levels it knows are {', '.join(shown)}"


def levels_in_turn(labels: Labels, n: int) -> Tensor:
    """(n, F) all combinations of levels, one after the other, the last label fastest."""
    sizes = [len(levels) for levels in labels.values()]
    rows = np.unravel_index(np.arange(n) % int(np.prod(sizes, dtype=object)), sizes)
    return torch.from_numpy(np.stack(rows, 1).astype(np.int64))
