"""The parameters of requests."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from untwine.errors import ParameterError
from untwine.explore.points import MAX_DOTS

NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?"
WHOLE_NUMBER = r"[0-9]{1,6}"


def list_schema(pattern: str, max_length: int) -> dict[str, Any]:
    """The JSON schema of a list of numbers in an address."""
    return {"pattern": f"^{pattern}(,{pattern})*$", "maxLength": max_length}


Index = Annotated[int, Query(ge=0, le=2**53 - 1, description="Index of an example of the data.")]
Seed = Annotated[int, Query(ge=0, le=2**31 - 1, description="Random seed.")]
Count = Annotated[int, Query(ge=1, le=100, description="Number of examples or images.")]
Steps = Annotated[int, Query(ge=2, le=41, description="Number of images from end to end.")]
Side = Annotated[int, Query(ge=1, le=32, description="Number of images on a side of the grid.")]
Text = Annotated[str, Query(min_length=1, max_length=200, description="Part of a name.")]
Number = Annotated[
    int, Query(ge=0, le=9999, description="Number of a latent, direction or cluster.")
]
Code = Annotated[
    str,
    Query(
        description="The code z, before the mapping: comma-separated numbers, one per latent, then "
        "the number of the level of each label.",
        json_schema_extra=list_schema(NUMBER, 10_000),
    ),
]
LatentList = Annotated[
    str,
    Query(
        description="Comma-separated numbers of latents.",
        json_schema_extra=list_schema(WHOLE_NUMBER, 5000),
    ),
]
LevelList = Annotated[
    str,
    Query(
        description="Comma-separated numbers of levels, one for each label of the model.",
        json_schema_extra=list_schema(WHOLE_NUMBER, 5000),
    ),
]


Dots = Annotated[int, Query(ge=1, le=MAX_DOTS, description="Number of examples that are dots.")]


class Indices(BaseModel):
    """Selected dots."""

    indices: list[Annotated[int, Field(ge=0, le=2**53 - 1)]] = Field(
        min_length=1, max_length=MAX_DOTS
    )
    dots: int = Field(1000, ge=1, le=MAX_DOTS)  # of the space they were selected in


def parse_numbers(text: str) -> list[float]:
    """Parse a code in an address.

    >>> parse_numbers("0.1,-2,3e-1")
    [0.1, -2.0, 0.3]
    """
    words = split_list(text, NUMBER, "a code is a list of numbers, as in 0.1,-2,0", "a number")
    return [float(word) for word in words]


def parse_ints(text: str) -> list[int]:
    """Parse a list of latents in an address.

    >>> parse_ints("3,1")
    [3, 1]
    """
    rule = "latents are whole numbers, as in 3,1"
    return [int(word) for word in split_list(text, WHOLE_NUMBER, rule, "the number of a latent")]


def split_list(text: str, pattern: str, rule: str, what: str) -> list[str]:
    """Split a list at its commas; refuse words that do not match the pattern."""
    words = text.split(",")
    for word in words:
        if not re.fullmatch(pattern, word):
            raise ParameterError(f"{rule}; {abbreviate(word)} is not {what}")
    return words


def abbreviate(value: object) -> str:
    """A value as text, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}..."
