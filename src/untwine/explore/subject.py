"""One run with a sample of its data: what every view of it is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from untwine.errors import IncompatibleError, ParameterError
from untwine.explore import spaces, tiles
from untwine.explore.handle import Encoded, Handle
from untwine.explore.kept import Kept
from untwine.runs import Finished

FARTHEST = 100.0  # of any number of a code
MOST_NUMBERS = 2**26  # of all images of one picture
KEPT = 16  # answers that are kept: all there are
SEEDS = 4  # whose draws from the prior are kept


class Subject:
    """A finished run and some examples. Everything is computed on first use and kept."""

    def __init__(
        self, finished: Finished, *, name: str, examples: int = 1000, seed: int = 0
    ) -> None:
        self.finished, self.name = finished, name
        self.data = finished.data
        self.handle = Handle(finished)
        most = max(1, MOST_NUMBERS // self.data.shape.numel())
        rng = np.random.default_rng(seed)
        n = min(examples, len(self.data), most)
        self.index = rng.choice(len(self.data), n, replace=False).astype(np.int64)
        self.place = {int(index): place for place, index in enumerate(self.index)}
        self.kept, self.kept_draws = Kept(KEPT), Kept(SEEDS)
        flat = tuple(self.data.shape) == (2,)
        self._plane = tiles.Plane(self.handle.take(self.index).numpy()) if flat else None

    def code(self, index: int) -> NDArray[np.floating]:
        """(D,) of an example; where others count, with those of its batch in the sample."""
        if self.handle.layout.together and index in self.place:
            return self.encoded().codes[self.place[index]]
        return self.handle.encode(self.handle.take([index])[0], self._companions)

    def _companions(self, count: int) -> Tensor:
        return self.handle.take(np.resize(self.index, count))

    def encoded(self) -> Encoded:
        """What the model says of the sample."""
        return self.kept("encoded", lambda: self.handle.survey(self.index))

    def knowledge(self) -> NDArray[np.float64]:
        """(D, K) what latents know of factors; without factors there are none (D, 0)."""
        if self.data.factors is None:
            return np.zeros((len(self.handle.layout.parts), 0))
        return self.kept(
            "knowledge", lambda: spaces.knowledge(self.encoded().codes, self.sampled_levels())
        )

    def sampled_levels(self) -> NDArray[np.int64]:
        """(N, K) the levels of the sample."""
        if self.data.factors is None:
            return np.zeros((len(self.index), 0), np.int64)
        return self.data.factors.of(self.index)

    def levels(self, index: int) -> dict[str, int]:
        """The levels of an example by factor."""
        if self.data.factors is None:
            return {}
        found = self.data.factors.of(np.array([index]))[0].tolist()
        return dict(zip(self.data.factors.names, found, strict=True))

    @property
    def pictured(self) -> bool:
        """Whether there are pictures of examples."""
        return self.handle.image or self._plane is not None

    @property
    def tile(self) -> list[int]:
        """Height and width of an image in pictures; nothing where there are none."""
        if self.handle.image:
            return list(self.data.shape[1:])
        return [tiles.DOT, tiles.DOT] if self.pictured else []

    def some(self, count: int, seed: int) -> list[int]:
        """Some of the sample, none twice."""
        rng = np.random.default_rng(seeded(seed))
        n = min(counted(count, "examples"), len(self.index))
        return rng.choice(self.index, n, replace=False).tolist()

    def shown(self, examples: NDArray[np.floating]) -> NDArray[np.uint8]:
        """(N, *shape) examples as images (N, C, H, W)."""
        return tiles.as_bytes(examples if self._plane is None else self._plane.dots(examples))

    def row(self, examples: NDArray[np.floating]) -> bytes:
        """(N, *shape) examples as a picture of one row."""
        self.need_pictures()
        return tiles.png(self.shown(examples)[None])

    def grid(self, codes: NDArray[np.floating]) -> bytes:
        """(R, C, D) codes as a picture of R rows and C columns."""
        parts = self.handle.each_decoded(codes.reshape(-1, codes.shape[-1]))
        images = np.concatenate([self.shown(part) for part in parts])
        return tiles.png(images.reshape(*codes.shape[:2], *images.shape[1:]))

    # Refusals

    def checked(self, index: int) -> int:
        """An index of the data."""
        require(
            0 <= index < len(self.data),
            f"the examples of this data are 0 to {len(self.data) - 1}; there is no {index}",
        )
        return index

    def checked_code(self, code: Sequence[float]) -> NDArray[np.float32]:
        """(D,) a code of the model."""
        latents = len(self.handle.layout.parts)
        require(
            len(code) == latents, f"a code of this model has {latents} numbers, not {len(code)}"
        )
        fits = all(math.isfinite(value) and abs(value) <= FARTHEST for value in code)
        require(fits, f"the numbers of a code lie between -{FARTHEST:g} and {FARTHEST:g}")
        return np.array(code, np.float32)

    def need_latent(self, number: int) -> None:
        latents = len(self.handle.layout.parts)
        require(0 <= number < latents, f"latents are 0 to {latents - 1}; there is no {number}")

    def need_pictures(self) -> None:
        if not self.pictured:
            raise IncompatibleError(
                f"the examples of this data are {self.data.shape.numel()} numbers, which have no "
                "picture; look at its space and factors instead"
            )

    def need_clusters(self) -> int:
        """How many there are."""
        if not self.handle.layout.clusters:
            raise IncompatibleError("this model has no clusters; look at one such as gm-vae")
        return self.handle.layout.clusters

    def need_room(self, images: int) -> None:
        numbers = images * (self.data.shape.numel() if self.handle.image else tiles.DOT**2)
        require(
            numbers <= MOST_NUMBERS, f"{images} images are too many for one picture; ask for fewer"
        )


def counted(count: int, what: str) -> int:
    require(count >= 1, f"the number of {what} must be at least 1, not {count}")
    return count


def seeded(seed: int) -> int:
    require(0 <= seed < 2**63, f"a seed must be from 0 to {2**63 - 1}, not {seed}")
    return seed


def require(fits: bool, sentence: str) -> None:
    if not fits:
        raise ParameterError(sentence)
