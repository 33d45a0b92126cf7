"""Coloured MNIST: every digit in a colour of its own, or all in one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset, Factors, Source
from untwine.data.derived import labels, open_dataset
from untwine.errors import DataError, ParameterError
from untwine.registry import dataset
from untwine.schema import Range

PALETTE = {
    "red": (255, 0, 0),
    "green": (0, 220, 0),
    "blue": (40, 80, 255),
    "cyan": (0, 230, 255),
    "magenta": (255, 0, 220),
    "yellow": (255, 255, 0),  # as in the paper
    "white": (255, 255, 255),
    "violet": (140, 60, 220),
    "orange": (255, 150, 0),  # as in the paper; of all the nearest to yellow
    "teal": (0, 140, 110),
}
COLOURS = tuple(PALETTE.values())


@dataclass(frozen=True)
class Coloured:
    """Grey images times a colour each; black stays black."""

    source: Source
    colour: Tensor  # (N,) which of the palette
    palette: Tensor  # (10, 3) in [0, 1]

    @property
    def shape(self) -> torch.Size:
        return torch.Size((3, *self.source.shape[1:]))

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: Tensor) -> Tensor:
        grey = self.source.take(index)  # (B, 1, H, W)
        return grey * self.palette[self.colour[index]][:, :, None, None]

    def to(self, device: torch.device) -> Self:
        return replace(
            self,
            source=self.source.to(device),
            colour=self.colour.to(device),
            palette=self.palette.to(device),
        )


def _assign_shares(shares: tuple[int, ...], count: int) -> NDArray[np.int64]:
    """(count,) colours in these shares, exact to one, in random order."""
    if not 0 < len(shares) <= len(COLOURS) or not sum(shares):
        raise ParameterError(
            f"coloured-mnist.shares must have 1 to {len(COLOURS)} weights, not all 0"
        )
    bounds = np.round(np.cumsum(shares) / sum(shares) * count)
    return np.random.default_rng(0).permutation(np.searchsorted(bounds, np.arange(count), "right"))


@dataset(
    title="Coloured MNIST",
    paper="Taghanaki et al., 2020",
    url="https://arxiv.org/abs/2005.05496",
    licence="that of the digits",
    citation="Taghanaki, Havaei, Lamb, Sanghi, Danielyan, Custis, Jigsaw-VAE: Towards Balancing "
    "Features in Variational Autoencoders, arXiv:2005.05496, 2020",
    examples="60,000 of 3x28x28",
    factors=("digit", "colour"),
    standin="digits",
)
def coloured_mnist(
    *,
    of: str = "mnist",
    colours: Literal["multi", "single", "shares"] = "multi",
    colour: Annotated[int, Range(0, len(COLOURS) - 1)] = 5,
    shares: Annotated[tuple[int, ...], Range(0)] = (58, 24, 10, 6, 2),
    digest: str = "",
) -> Dataset:
    """Digits in colour on black, the colour telling the digit (Taghanaki et al., 2020).

    Models are trained with a colour for each class and tested with the same rule, or with all
    digits in one of the colours, where a model that sees nothing but colour fails. The paper
    names two of the colours, 5 yellow and 8 orange; the other eight are ours. An image is its
    grey levels times the colour. Two factors: the digit and the colour.

    With "shares", the colour says nothing about the digit: the first colours of the palette come in
    given shares, some rarely.

    Args:
        of: the digits: mnist, mnist(split=test), digits, fashion-mnist.
        colours: "multi", each class in its own colour; "single", all in one; "shares", in shares.
        colour: the one of "single": the digit whose colour it is; 5 is yellow.
        shares: the weights of "shares", for the first colours in turn.
        digest: of the files behind the digits, filled in by a run.
    """
    base = open_dataset(of, digest)
    name, size, digit = labels(base, of)
    if base.shape[:1] != (1,) or len(base.shape) != 3 or size > len(COLOURS):
        raise DataError(
            f"{of} cannot be coloured: it needs grey images of at most {len(COLOURS)} classes"
        )
    if colours == "shares":
        tint = _assign_shares(shares, len(digit)).astype(digit.dtype)
    else:
        tint = digit if colours == "multi" else np.full_like(digit, colour)
    table = np.stack([digit, tint], 1).astype(np.uint8)
    source = Coloured(base.source, torch.from_numpy(tint), torch.tensor(COLOURS) / 255)
    assert base.factors is not None, "labels refuses data without factors"
    factors = Factors(
        (name, "colour"),
        (size, len(COLOURS)),
        table,
        unordered=(name, "colour"),
        level_names={
            "colour": tuple(PALETTE),
            **{k: v for k, v in base.factors.level_names.items() if k == name},
        },
    )
    return replace(base, source=source, factors=factors)
