"""What routes of the server share: kinds of answers, refusals, and the names of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import HTTPException
from fastapi import Path as InPath
from fastapi.responses import Response

from untwine.errors import DataError, ParameterError
from untwine.explore.answers import Problem

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery
    from untwine.explore.view import RunView

# For answers that depend only on the run and the address.
CACHE_HEADERS = {"cache-control": "private, max-age=600"}
Name = Annotated[str, InPath(description="Name of a run, as listed by /api/runs.")]


class Picture(Response):
    """A PNG."""

    media_type = "image/png"


class Drawing(Response):
    """An SVG."""

    media_type = "image/svg+xml"


def cached_png(content: bytes) -> Picture:
    """A picture that clients may cache."""
    return Picture(content, headers=CACHE_HEADERS)


REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": reason}
    for code, reason in {
        400: "the request or the host name is invalid",
        401: "the token is missing or wrong",
        403: "another site made the browser send the request",
        404: "no such run or figure",
        409: "the run cannot be opened, or its model lacks what was asked for",
        413: "the request is too large",
        422: "a value is missing or out of range",
        503: "too many uploads at once",
    }.items()
}


def binary_response(kind: type[Response]) -> dict[str, Any]:
    """Keywords of a route whose answers are binary, while refusals stay JSON."""
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    refusals = {
        code: {"description": refusal["description"], "content": problem}
        for code, refusal in REFUSALS.items()
    }
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "response_class": kind,
        "responses": {200: {"content": {kind.media_type: binary}}, **refusals},
    }


UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def open_view(gallery: Gallery, name: str) -> RunView:
    """The view of a run; 404 if there is no such run."""
    try:
        return gallery.view(name)
    except ParameterError as error:
        raise HTTPException(404, str(error)) from error
    except DataError as error:  # its data is not on this machine
        raise HTTPException(409, str(error)) from error
