"""Faces without a download: people who do not exist, painted from numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.cache import cached_arrays, digest_of
from untwine.data.dataset import PRESENCE, Dataset, Factors, Pixels
from untwine.errors import ParameterError
from untwine.registry import dataset
from untwine.renderers.faces import Face, paint
from untwine.schema import Count, Natural, Range, Share
from untwine.tools.progress import progress

VERSION = 1  # of the pictures; increase it to repaint cached ones
BLOCK = 32  # faces painted at once
LEVELS = 10
MIN_LIKING = 1e-9  # of an attribute for people who get it only when nobody else is left
HAIR = ("bald", "grey hair", "black hair", "blond hair", "brown hair")
ATTRIBUTES = ("female", "smiling", "eyeglasses", "hat", *HAIR, "beard", "old")
GRADED = ("yaw", "light", "width", "skin", "backdrop")
NAMES = (*ATTRIBUTES, "face turn", "light side", "face width", "skin tone", "background")
PARTS = {"train": (0,), "test": (1,), "all": (0, 1)}
Rates = Mapping[str, float]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Trait:
    """The range of a number that varies from face to face; its middle is the most frequent."""

    low: float
    high: float
    women: float = 0.0  # added for women
    even: bool = False  # whether all numbers are equally frequent

    def values(self, u: Numbers, female: Numbers) -> Numbers:
        """(N,) even numbers from 0 to 1 to values."""
        place = u if self.even else np.where(u < 0.5, np.sqrt(u / 2), 1 - np.sqrt((1 - u) / 2))
        return self.low + (self.high - self.low) * place + self.women * female


IDENTITY = {
    "width": Trait(0.84, 1.16, -0.03),
    "chin": Trait(0.91, 1.09, -0.02),
    "jaw": Trait(1.88, 2.6, -0.2),
    "eye gap": Trait(0.85, 1.15),
    "eye size": Trait(0.82, 1.16, 0.06),
    "eye tilt": Trait(-0.22, 0.10),
    "brow height": Trait(0, 1),
    "brow arch": Trait(0.0, 0.04, 0.012),
    "brow weight": Trait(0.7, 1.25),
    "nose length": Trait(0.82, 1.2, -0.03),
    "nose width": Trait(0.72, 1.4, -0.08),
    "mouth width": Trait(0.8, 1.2),
    "lips": Trait(0.6, 1.5),
    "part": Trait(-1, 1, even=True),
}
"""What makes a person; the same in both domains."""
SHARES = (
    *("skin", "iris", "make-up", "lipstick", "mouth open", "beard length"),
    *("hair seed", "hair shade", "hair wave", "hair volume", "hair length", "hairline", "curtain"),
    *("hat style", "hat height", "hat hue", "hat depth", "hat light"),
    *("glasses style", "glasses tint", "glasses colour", "glasses weight"),
    *("neckline", "clothes", "clothes depth", "clothes light"),
    *("backdrop", "backdrop depth", "backdrop light", "backdrop turn"),
)
"""Numbers from 0 to 1, all equally frequent."""
PHOTO = {
    "x": Trait(-0.09, 0.09),
    "y": Trait(-0.04, 0.10),
    "zoom": Trait(1.08, 1.32),
    "roll": Trait(-0.2, 0.2),
    "yaw": Trait(-0.55, 0.55),
    "pitch": Trait(-0.2, 0.2),
    "light": Trait(-1.3, 1.3),
    "light height": Trait(0.0, 1.0),
    "fill": Trait(0.3, 0.6),
    "gaze x": Trait(-0.25, 0.25),
    "gaze y": Trait(-0.1, 0.1),
}
SCAN = {
    "x": Trait(0.0, 0.0),
    "y": Trait(0.02, 0.02),
    "zoom": Trait(1.12, 1.16),
    "roll": Trait(0.0, 0.0),
    "yaw": Trait(-0.75, 0.75, even=True),
    "pitch": Trait(-0.12, 0.12),
    "light": Trait(-1.5, 1.5, even=True),
    "light height": Trait(0.1, 0.5),
    "fill": Trait(0.2, 0.3),
    "gaze x": Trait(0.0, 0.0),
    "gaze y": Trait(0.0, 0.0),
}
"""How a person is seen."""
CHANCES = ("female", "old", "hair", "beard", "smiling", "eyeglasses", "hat", "long hair", "fringe")
COLUMNS = (*CHANCES, *IDENTITY, *SHARES, *PHOTO)


def draw_numbers(seed: int, parts: Sequence[int], count: int) -> dict[str, Numbers]:
    """(N,) even numbers from 0 to 1 for everything that varies.

    Face i of a part is a function of seed and part alone, however many are drawn.
    """
    shape = count, len(COLUMNS)
    u = np.concatenate([np.random.default_rng((seed, part)).random(shape) for part in parts])
    return dict(zip(COLUMNS, u.T, strict=True))


def share_out(rate: float, room: Numbers, liking: Numbers) -> Numbers:
    """Share out a rate over kinds of people, by liking, no kind beyond its room.

    >>> share_out(0.5, np.array([0.4, 0.6]), np.array([1.0, 0.0]))
    array([0.4, 0.1])
    """
    amount = np.zeros_like(room)
    for _ in room:
        wish = np.where(amount < room, liking + MIN_LIKING * room, 0)
        amount = np.minimum(room, amount + (rate - amount.sum()) * wish / max(wish.sum(), 1e-300))
    return amount


def chances_without(rate: float, other: float) -> Numbers:
    """(2,) the probability of an attribute, if possible, only where another one is not."""
    kinds = np.array([1 - other, other])
    return share_out(rate, kinds, np.array([1.0, 0.0])) / np.maximum(kinds, 1e-300)


def hair_chances(rates: Rates) -> Numbers:
    """(2, 2, 5) for men and women, young and old: bald, grey, black, blond or brown."""
    female, old = rates["female"], rates["old"]
    kinds = np.outer([1 - female, female], [1 - old, old]).ravel()
    men, aged = np.array([1.0, 1, 0, 0]), np.array([0.0, 1, 0, 1])
    room, amounts = kinds, []
    for name, liked in zip(HAIR, (men, aged, 1, 1, 1), strict=True):
        amounts.append(share_out(rates[name], room, room * liked))
        room = room - amounts[-1]
    return (np.stack(amounts, -1) / np.maximum(kinds, 1e-300)[:, None]).reshape(2, 2, len(HAIR))


def attributes(u: Mapping[str, Numbers], rates: Rates) -> dict[str, Numbers]:
    """(N,) zeros and ones by name, each as frequent as asked."""
    has = {name: u[name] < rates[name] for name in ("female", "old", "smiling", "eyeglasses")}
    female, old = has["female"].astype(int), has["old"].astype(int)
    below = hair_chances(rates).cumsum(-1)[female, old]  # (N, 5)
    colour = (u["hair"][:, None] >= below).sum(-1)
    has |= {name: colour == k for k, name in enumerate(HAIR)}
    for name, other in (("beard", "female"), ("hat", "bald")):
        has[name] = u[name] < chances_without(rates[name], rates[other])[has[other].astype(int)]
    return {name: has[name].astype(np.float64) for name in ATTRIBUTES}


def traits(u: Mapping[str, Numbers], has: Mapping[str, Numbers], domain: str) -> dict[str, Numbers]:
    """(N,) all numbers that a portrait is painted from."""
    female, seen = has["female"], PHOTO if domain == "photo" else SCAN
    ranges = IDENTITY | seen
    numbers = {name: u[name] for name in SHARES}
    numbers |= {name: trait.values(u[name], female) for name, trait in ranges.items()}
    numbers |= has
    numbers["long hair"] = (u["long hair"] < np.where(female > 0, 0.9, 0.05)).astype(np.float64)
    numbers["fringe"] = (u["fringe"] < 0.15 + 0.1 * female).astype(np.float64)
    side, height = numbers.pop("light"), numbers.pop("light height")
    numbers["light x"] = np.sin(side) * np.cos(height)
    numbers["light y"] = -np.sin(height)
    numbers["light z"] = np.cos(side) * np.cos(height)
    return numbers


def paint_block(numbers: Mapping[str, Numbers], size: int, domain: str) -> Tensor:
    """(N, size, size, 3) bytes. Small pictures are painted large, for the sake of thin lines."""
    scale = 2 if size < 64 else 1
    columns = {name: torch.from_numpy(v).float()[:, None, None] for name, v in numbers.items()}
    face = Face(columns, size * scale, domain == "scan")
    picture = F.avg_pool2d(paint(face), scale)
    return picture.mul(255).round().to(torch.uint8).permute(0, 2, 3, 1)


def paint_all(numbers: Mapping[str, Numbers], size: int, domain: str) -> NDArray[np.uint8]:
    """(N, size, size, 3) bytes of all faces, painted a few at a time."""
    count = len(numbers["x"])
    pictures = np.empty((count, size, size, 3), np.uint8)
    with progress(count, "painting faces") as show:
        for start in range(0, count, BLOCK):
            block = {name: v[start : start + BLOCK] for name, v in numbers.items()}
            pictures[start : start + BLOCK] = paint_block(block, size, domain).numpy()
            show(min(start + BLOCK, count), "")
    return pictures


def levels(u: Mapping[str, Numbers], has: Mapping[str, Numbers]) -> Factors:
    """The attributes with two levels each, then the graded numbers with ten."""
    graded = [np.floor(LEVELS * u[name]) for name in GRADED]
    table = np.stack([*(has[name] for name in ATTRIBUTES), *graded], 1).astype(np.int8)
    sizes = (2,) * len(ATTRIBUTES) + (LEVELS,) * len(GRADED)
    return Factors(NAMES, sizes, table, level_names=dict.fromkeys(ATTRIBUTES, PRESENCE))


def check_hair(rates: Rates) -> None:
    total = sum(rates[name] for name in HAIR)
    if total > 1 + 1e-9:
        names = ", ".join(name.replace(" ", "_") for name in HAIR)
        raise ParameterError(
            f"faces: {names} exclude each other, but together they are {total:.4g}; "
            "choose rates whose sum is at most 1"
        )


@dataset(
    title="Painted faces",
    paper="Liu et al., 2015",
    url="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    licence="Apache-2.0 (painted by untwine)",
    citation="Liu, Z. et al. (2015). Deep Learning Face Attributes in the Wild. ICCV.",
    examples="20,000 of 3x64x64",
    factors=NAMES,
)
def faces(
    *,
    size: Annotated[int, Range(32, 128)] = 64,
    count: Count = 20_000,
    split: Literal["train", "test", "all"] = "train",
    domain: Literal["photo", "scan"] = "photo",
    seed: Natural = 0,
    female: Share = 0.5806,
    smiling: Share = 0.4821,
    eyeglasses: Share = 0.0646,
    hat: Share = 0.0485,
    bald: Share = 0.0228,
    grey_hair: Share = 0.0424,
    black_hair: Share = 0.2393,
    blond_hair: Share = 0.1480,
    brown_hair: Share = 0.2052,
    beard: Share = 0.1658,
    old: Share = 0.2211,
) -> Dataset:
    """A stand-in for CelebA (Liu et al., 2015) that needs no download: painted colour portraits.

    Nobody in it exists: shape of the face, eyes, nose, mouth, hair, skin, pose, light and
    background vary continuously, and eleven attributes are there or not, by default as often as in
    CelebA's training images. Hair is bald, grey, black, blond, brown or, in what remains, red;
    beards and bald heads go to men, grey hair to the old and hats to those who are not bald, until
    none of them is left, so that every rate holds. The pictures are painted once, which takes a
    minute or two, and kept in the cache. Faces of the same number and seed are the same people in
    both domains.

    Factors are the attributes, with two levels each, and five continuous numbers in ten levels of
    equal frequency.

    Args:
        size: side of the images in pixels.
        count: number of faces in each of the two splits.
        split: `train`, `test`, or `all` for one after the other; no face is in both.
        domain: `photo`: coloured backgrounds, clothes and hair with texture; `scan`: like 3D scans
            of heads, smooth as clay before an even background, under harder light, turned further.
        seed: of the faces.
        female: share of women.
        smiling: share of those who smile.
        eyeglasses: share of those who wear glasses.
        hat: share of those who wear a hat.
        bald: share of those without hair.
        grey_hair: share of grey hair.
        black_hair: share of black hair.
        blond_hair: share of blond hair.
        brown_hair: share of brown hair.
        beard: share of those with a beard.
        old: share of those with wrinkles, who are not young in CelebA.
    """
    rates: dict[str, float] = {
        "female": female,
        "smiling": smiling,
        "eyeglasses": eyeglasses,
        "hat": hat,
        "bald": bald,
        "grey hair": grey_hair,
        "black hair": black_hair,
        "blond hair": blond_hair,
        "brown hair": brown_hair,
        "beard": beard,
        "old": old,
    }
    check_hair(rates)
    u = draw_numbers(seed, PARTS[split], count)
    has = attributes(u, rates)
    key = json.dumps([VERSION, size, count, split, domain, seed, rates], sort_keys=True)
    arrays = cached_arrays(
        "faces",
        digest_of([("", key.encode())]),
        lambda: {"images": paint_all(traits(u, has, domain), size, domain)},
    )
    return Dataset(Pixels(torch.from_numpy(arrays["images"])), levels(u, has))
