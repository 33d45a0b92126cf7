"""The web service: views of runs as JSON and PNG, and the page that shows them.

A bad request is answered with a 4xx status and {"detail": "a sentence"}. `AccessControl` checks the
host, the origin, the token and the size of every request first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect

from untwine import __version__
from untwine.errors import IncompatibleError, ParameterError, RunError, UntwineError
from untwine.explore.answers import (
    Cluster,
    Example,
    FactorTable,
    Overview,
    Reconstruction,
    RunLine,
    RunSummary,
    Selection,
    Space,
    Start,
)
from untwine.explore.constants import PAGE
from untwine.explore.routes import (
    REFUSALS,
    UPLOAD_BODY,
    Name,
    Picture,
    binary_response,
    cached_png,
    open_view,
)
from untwine.explore.security import HEADERS, AccessControl
from untwine.explore.study_routes import study_routes

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
PAGE_FOLDER = str(PAGE)
MAX_REQUEST_LINE = 2**16  # bytes of a request without its body; addresses contain codes
MAX_UPLOADS_DECODED_AT_ONCE = 2  # a picture takes far more memory decoded than sent
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


class Indices(BaseModel):
    """Selected examples."""

    indices: list[Annotated[int, Field(ge=0, le=2**53 - 1)]] = Field(min_length=1, max_length=1000)


def application(
    gallery: Gallery,
    *,
    token: str = "",
    hosts: Sequence[str] = LOCAL_HOSTS,
    one_time_tokens: Sequence[str] = (),
    framed_by: str = "",
) -> FastAPI:
    """The web service for the runs of a gallery.

    Args:
        gallery: the runs to serve.
        token: required from clients; empty for none.
        hosts: host names that requests may use, without ports; "*" for any.
        one_time_tokens: tokens that open the page once each.
        framed_by: the origin whose pages may show the page in a frame; empty for none.
    """
    app = FastAPI(
        title="untwine explore",
        version=__version__,
        description="What the latents of runs encode, as JSON and PNG.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=REFUSALS,
    )
    app.add_middleware(
        AccessControl,
        token=token,
        hosts=hosts,
        one_time_tokens=one_time_tokens,
        framed_by=framed_by,
    )
    for kind, status in STATUS.items():
        app.add_exception_handler(kind, error_handler(status))
    app.add_exception_handler(RequestValidationError, validation_error)
    app.add_exception_handler(AnyHTTPException, framework_error)
    app.add_exception_handler(ClientDisconnect, client_gone)
    app.add_exception_handler(Exception, server_error)
    for router in (
        run_routes(gallery),
        study_routes(gallery),
        code_routes(gallery),
        image_routes(gallery),
        decoded_routes(gallery),
    ):
        app.include_router(router)
    add_page(app)
    return app


def run_routes(gallery: Gallery) -> APIRouter:
    """Routes of runs."""
    router = APIRouter(prefix="/api", tags=["runs"])

    @router.get("/overview")
    def overview() -> Overview:
        """What the page opens with."""
        return gallery.overview()

    @router.get("/runs")
    def runs() -> list[RunLine]:
        """List all runs, the newest first."""
        return gallery.lines()

    @router.get("/runs/{run}")
    def summary(run: Name) -> RunSummary:
        """The model, data and latents of a run."""
        return open_view(gallery, run).summary()

    @router.get("/runs/{run}/factors")
    def factors(run: Name) -> FactorTable:
        """What every latent knows of every factor, and the stored scores."""
        return open_view(gallery, run).factors()

    @router.get("/runs/{run}/clusters")
    def clusters(run: Name) -> list[Cluster]:
        """The clusters of a model."""
        return open_view(gallery, run).clusters()

    return router


def code_routes(gallery: Gallery) -> APIRouter:
    """Routes of codes: starting points and coordinates."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["codes"])
    decoders = anyio.CapacityLimiter(MAX_UPLOADS_DECODED_AT_ONCE)

    @router.get("/start")
    def start(run: Name, index: Index | None = None, seed: Seed | None = None) -> Start:
        """The code of an example (index), or one drawn from the prior (seed)."""
        view = open_view(gallery, run)
        if index is not None and seed is None:
            return view.start_from(index)
        if seed is not None and index is None:
            return view.start_from_prior(seed)
        raise ParameterError("give index for an example or seed for a draw, and only one of them")

    @router.post("/start", openapi_extra=UPLOAD_BODY)
    async def upload(run: Name, request: Request, labels: LevelList = "") -> Start:
        """The code of a picture file sent as the body; any common format."""
        levels = parse_ints(labels) if labels else []
        content = await request.body()
        return await to_thread.run_sync(
            lambda: open_view(gallery, run).start_from_upload(content, levels), limiter=decoders
        )

    @router.get("/space")
    def space(
        run: Name,
        by: Literal["latents", "pca", "tsne"] = "pca",
        x: Number = 0,
        y: Number = 1,
    ) -> Space:
        """The codes of the sample in two dimensions: two latents or main directions, or t-SNE."""
        return open_view(gallery, run).space(by, x, y)

    @router.post("/selection")
    def selection(run: Name, chosen: Indices) -> Selection:
        """What selected examples have in common."""
        return open_view(gallery, run).select(chosen.indices)

    return router


def image_routes(gallery: Gallery) -> APIRouter:
    """Routes of examples and their reconstructions."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["images"])

    @router.get("/examples")
    def examples(run: Name, count: Count = 24, seed: Seed = 0) -> list[Example]:
        """Examples chosen at random from the sample."""
        return open_view(gallery, run).examples(count, seed)

    @router.get("/image.png", **binary_response(Picture))
    def image(run: Name, index: Index) -> Picture:
        """An example of the data."""
        return cached_png(open_view(gallery, run).image(index))

    @router.get("/sheet.png", **binary_response(Picture))
    def sheet(run: Name) -> Picture:
        """All images of the sample in rows of 32, in the order of the space's points."""
        return cached_png(open_view(gallery, run).sheet())

    @router.get("/reconstructions")
    def reconstructions(
        run: Name,
        count: Count = 24,
        order: Literal["worst", "best", "random"] = "worst",
        seed: Seed = 0,
    ) -> list[Reconstruction]:
        """Examples with their reconstruction errors."""
        return open_view(gallery, run).reconstructions(count, order, seed)

    @router.get("/reconstruction.png", **binary_response(Picture))
    def reconstruction(run: Name, index: Index) -> Picture:
        """The reconstruction of an example."""
        return cached_png(open_view(gallery, run).reconstruction(index))

    return router


def decoded_routes(gallery: Gallery) -> APIRouter:
    """Routes of decoded codes."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["decoded"])

    @router.get("/decode.png", **binary_response(Picture))
    def decode(run: Name, code: Code) -> Picture:
        """The image of a code."""
        return cached_png(open_view(gallery, run).decode(parse_numbers(code)))

    @router.get("/traversals.png", **binary_response(Picture))
    def traversals(run: Name, code: Code, latents: LatentList, steps: Steps = 11) -> Picture:
        """One row per latent, in which only that latent moves, from low to high."""
        return cached_png(
            open_view(gallery, run).traversals(parse_numbers(code), parse_ints(latents), steps)
        )

    @router.get("/between.png", **binary_response(Picture))
    def between(run: Name, start: Index, end: Index, steps: Steps = 9) -> Picture:
        """A row from one example to another, in a straight line between their codes."""
        return cached_png(open_view(gallery, run).between(start, end, steps))

    @router.get("/groups.png", **binary_response(Picture))
    def groups(
        run: Name, cluster: Number = 0, seed: Seed = 0, rows: Side = 6, columns: Side = 8
    ) -> Picture:
        """Down: draws of the shared latents. Across: draws of each example's own latents."""
        return cached_png(open_view(gallery, run).groups(cluster, seed, rows, columns))

    @router.get("/cluster.png", **binary_response(Picture))
    def cluster(run: Name, number: Number, seed: Seed = 0, count: Count = 8) -> Picture:
        """Images drawn from the prior that the model assigns to a cluster."""
        return cached_png(open_view(gallery, run).cluster(number, seed, count))

    return router


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


STATUS: dict[type[UntwineError], int] = {
    UntwineError: 422,
    IncompatibleError: 409,
    RunError: 409,
}


def error_handler(status: int) -> Any:
    """A handler that answers with this status and the error's message."""

    async def respond(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status)

    return respond


async def framework_error(request: Request, error: Exception) -> JSONResponse:
    """Answer to an address or method that does not exist."""
    assert isinstance(error, AnyHTTPException)
    detail = error.detail
    if detail == "Not Found":
        detail = "there is no such address; /api/openapi.json lists all addresses"
    if detail == "Method Not Allowed":
        method = abbreviate(request.method)
        detail = f"this address does not take {method}; /api/openapi.json lists what it takes"
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def validation_error(request: Request, error: Exception) -> JSONResponse:
    """Answer to a missing or wrong value: a sentence about the first."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = [str(part) for part in first["loc"][1:] if not isinstance(part, int)]
    name = ".".join(where) or "the body"
    if first["type"] == "missing":
        return JSONResponse(
            {"detail": f"{name} is missing; /api/openapi.json lists what to give"}, 422
        )
    if first["type"] == "json_invalid":
        return JSONResponse({"detail": "the body is not JSON"}, 422)
    rule = first["msg"].removeprefix("Input ")
    value = abbreviate(first.get("input"))
    return JSONResponse({"detail": f"{name} {rule[0].lower()}{rule[1:]}, not {value}"}, 422)


async def client_gone(request: Request, error: Exception) -> Response:
    """Answer to a client that hung up while sending, which nobody receives."""
    return Response(status_code=400)


async def server_error(request: Request, error: Exception) -> JSONResponse:
    """Answer to an unexpected error, which the server logs."""
    detail = "this failed inside the server; its terminal shows why"
    return JSONResponse({"detail": detail}, 500, HEADERS)


def add_page(app: FastAPI) -> None:
    """Serve the page and its files."""

    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        return FileResponse(f"{PAGE_FOLDER}/index.html", headers={"cache-control": "no-cache"})

    app.mount("/page", StaticFiles(directory=PAGE_FOLDER, check_dir=False))
