"""The web service: what a `Look` sees of a run as JSON and PNG, and the page that shows it.

A bad request is answered by a 4xx and {"detail": "a sentence"}. `Guard` stands before everything:
it knows the names under which the server may be called, the token, and how much may be sent.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from untwine import __version__
from untwine.errors import DataError, IncompatibleError, ParameterError, RunError, UntwineError
from untwine.explore.answers import (
    Cluster,
    Example,
    FactorTable,
    Facts,
    Problem,
    Reconstruction,
    RunLine,
    Selection,
    Space,
    Start,
    Study,
    StudyFigure,
)
from untwine.explore.guard import HEADERS, Guard
from untwine.explore.manual import manual

if TYPE_CHECKING:
    from untwine.explore.look import Look
    from untwine.explore.place import Place

LOCAL = ("localhost", "127.0.0.1", "[::1]")
PAGE = str(files("untwine.explore") / "page")

LONGEST = 2**16  # bytes of a request without its body: codes stand in addresses
KEPT = {"cache-control": "private, max-age=600"}  # what depends on the run and the address alone

NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?"
WHOLE = r"[0-9]{1,6}"


def listed(pattern: str, longest: int) -> dict[str, Any]:
    """How a list of numbers in an address is described."""
    return {"pattern": f"^{pattern}(,{pattern})*$", "maxLength": longest}


Index = Annotated[int, Query(ge=0, le=2**53 - 1, description="Which example of the data.")]
Seed = Annotated[int, Query(ge=0, le=2**31 - 1, description="Of what is drawn.")]
Count = Annotated[int, Query(ge=1, le=100, description="How many.")]
Steps = Annotated[int, Query(ge=2, le=41, description="Images from end to end.")]
Side = Annotated[int, Query(ge=1, le=32, description="Images on a side of the grid.")]
Number = Annotated[int, Query(ge=0, le=9999, description="Of a latent, component or cluster.")]
Code = Annotated[
    str,
    Query(
        description="The code z, before the mapping: a number for each latent, with commas.",
        json_schema_extra=listed(NUMBER, 10_000),
    ),
]
Chosen = Annotated[
    str,
    Query(description="Numbers of latents, with commas.", json_schema_extra=listed(WHOLE, 5000)),
]
Name = Annotated[str, InPath(description="A name that /api/runs lists.")]


class Indices(BaseModel):
    """Examples that were selected."""

    indices: list[Annotated[int, Field(ge=0, le=2**53 - 1)]] = Field(min_length=1, max_length=1000)


class Picture(Response):
    """A PNG."""

    media_type = "image/png"


class Drawing(Response):
    """An SVG."""

    media_type = "image/svg+xml"


def drawn(content: bytes) -> Picture:
    """A picture that is the same whenever it is asked for."""
    return Picture(content, headers=KEPT)


REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": why}
    for code, why in {
        400: "the request itself or the name of the server is wrong",
        401: "the token is missing or wrong",
        404: "there is no such run or figure",
        409: "the run cannot be opened, or its model has no such thing",
        413: "too much was sent",
        422: "a value is missing or out of range",
    }.items()
}


def answering(kind: type[Response]) -> dict[str, Any]:
    """How a route is declared whose answers are of another kind, while refusals stay JSON."""
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    refusals = {
        code: {"description": fact["description"], "content": problem}
        for code, fact in REFUSALS.items()
    }
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "response_class": kind,
        "responses": {200: {"content": {kind.media_type: binary}}, **refusals},
    }


SENT = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The address of a server on this machine, in a thread, while it is needed."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        config = uvicorn.Config(app, log_level="error", h11_max_incomplete_event_size=LONGEST)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://localhost:{door.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


def application(place: Place, *, token: str = "", hosts: Sequence[str] = LOCAL) -> FastAPI:
    """The service for the runs of a place.

    Args:
        place: what may be looked at.
        token: what a client has to know; empty where nobody else can reach the server.
        hosts: names under which the server may be called, without ports; "*" for any.
    """
    app = FastAPI(
        title="untwine explore",
        version=__version__,
        description="What the latents of runs hold, as JSON and PNG.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=REFUSALS,
    )
    app.add_middleware(Guard, token=token, hosts=hosts)
    for fault, status in STATUS.items():
        app.add_exception_handler(fault, refusal(status))
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(AnyHTTPException, refused)
    app.add_exception_handler(Exception, broken)
    for router in (lists(place), codes(place), images(place), sheets(place)):
        app.include_router(router)
    add_page(app)
    return app


def opened(place: Place, name: str) -> Look:
    """The run of this name; 404 where there is none."""
    try:
        return place.look(name)
    except ParameterError as error:
        raise HTTPException(404, str(error)) from error
    except DataError as error:  # its data is not on this machine
        raise HTTPException(409, str(error)) from error


def lists(place: Place) -> APIRouter:
    """What there is: runs and studies."""
    router = APIRouter(prefix="/api", tags=["runs"])

    @router.get("/runs")
    def runs() -> list[RunLine]:
        """Every run that may be looked at."""
        return place.lines()

    @router.get("/runs/{run}")
    def facts(run: Name) -> Facts:
        """What a run is: its model, its data, its latents."""
        return opened(place, run).facts()

    @router.get("/runs/{run}/factors")
    def factors(run: Name) -> FactorTable:
        """What every latent knows of every factor, and the scores that were kept."""
        return opened(place, run).factors()

    @router.get("/runs/{run}/clusters")
    def clusters(run: Name) -> list[Cluster]:
        """The clusters of a model that has them."""
        return opened(place, run).clusters()

    @router.get("/study")
    def study() -> Study:
        """The study, or all runs, as a table."""
        return place.study()

    @router.get("/study/figures")
    def figures() -> list[StudyFigure]:
        """The figures of the study's report."""
        return place.figures()

    @router.get("/study/figures/{name}.svg", **answering(Drawing))
    def figure(
        name: Annotated[str, InPath(description="That /api/study/figures lists.")],
    ) -> Drawing:
        """A figure of the study's report."""
        try:
            return Drawing(place.figure(name))
        except ParameterError as error:
            raise HTTPException(404, str(error)) from error

    return router


def codes(place: Place) -> APIRouter:
    """Codes: where to start from, where they lie."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["codes"])

    @router.get("/start")
    def start(run: Name, index: Index | None = None, seed: Seed | None = None) -> Start:
        """The code of an example (index), or one drawn from the prior (seed)."""
        look = opened(place, run)
        if index is not None and seed is None:
            return look.start_from(index)
        if seed is not None and index is None:
            return look.start_from_prior(seed)
        raise ParameterError("give index for an example or seed for a draw, and only one of them")

    @router.post("/start", openapi_extra=SENT)
    async def upload(run: Name, request: Request) -> Start:
        """The code of a picture, whose bytes are the body; any common format."""
        content = await request.body()
        return await run_in_threadpool(lambda: opened(place, run).start_from_upload(content))

    @router.get("/space")
    def space(
        run: Name,
        by: Literal["latents", "pca", "tsne"] = "pca",
        x: Number = 0,
        y: Number = 1,
    ) -> Space:
        """The codes of the sample in two dimensions: two latents or components, or t-SNE."""
        return opened(place, run).space(by, x, y)

    @router.post("/selection")
    def selection(run: Name, chosen: Indices) -> Selection:
        """What selected examples have in common."""
        return opened(place, run).select(chosen.indices)

    return router


def images(place: Place) -> APIRouter:
    """Examples of the data, and how the model sees them."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["images"])

    @router.get("/examples")
    def examples(run: Name, count: Count = 24, seed: Seed = 0) -> list[Example]:
        """A few examples of the sample."""
        return opened(place, run).examples(count, seed)

    @router.get("/image.png", **answering(Picture))
    def image(run: Name, index: Index) -> Picture:
        """An example of the data."""
        return drawn(opened(place, run).image(index))

    @router.get("/sheet.png", **answering(Picture))
    def sheet(run: Name) -> Picture:
        """All images of the sample in rows of 32, in the order of the space's points."""
        return drawn(opened(place, run).sheet())

    @router.get("/reconstructions")
    def reconstructions(
        run: Name,
        count: Count = 24,
        order: Literal["worst", "best", "random"] = "worst",
        seed: Seed = 0,
    ) -> list[Reconstruction]:
        """Examples with how far off their reconstructions are."""
        return opened(place, run).reconstructions(count, order, seed)

    @router.get("/reconstruction.png", **answering(Picture))
    def reconstruction(run: Name, index: Index) -> Picture:
        """An example as the model sees it: encoded and decoded."""
        return drawn(opened(place, run).reconstruction(index))

    return router


def sheets(place: Place) -> APIRouter:
    """What the model makes of codes."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["decoded"])

    @router.get("/decode.png", **answering(Picture))
    def decode(run: Name, code: Code) -> Picture:
        """The image of a code."""
        return drawn(opened(place, run).decode(numbers(code)))

    @router.get("/traversals.png", **answering(Picture))
    def traversals(run: Name, code: Code, latents: Chosen, steps: Steps = 11) -> Picture:
        """A row for each latent, in which it alone moves from low to high."""
        return drawn(opened(place, run).traversals(numbers(code), wholes(latents), steps))

    @router.get("/between.png", **answering(Picture))
    def between(run: Name, start: Index, end: Index, steps: Steps = 9) -> Picture:
        """A row from one example to another, in a straight line between their codes."""
        return drawn(opened(place, run).between(start, end, steps))

    @router.get("/groups.png", **answering(Picture))
    def groups(
        run: Name, cluster: Number = 0, seed: Seed = 0, rows: Side = 6, columns: Side = 8
    ) -> Picture:
        """Down: draws of what a group shares. Across: draws of what is each example's own."""
        return drawn(opened(place, run).groups(cluster, seed, rows, columns))

    @router.get("/cluster.png", **answering(Picture))
    def cluster(run: Name, number: Number, seed: Seed = 0, count: Count = 8) -> Picture:
        """Images drawn from the prior that the model itself puts into a cluster."""
        return drawn(opened(place, run).cluster(number, seed, count))

    return router


def numbers(text: str) -> list[float]:
    """The numbers of a code in an address.

    >>> numbers("0.1,-2,3e-1")
    [0.1, -2.0, 0.3]
    """
    return [float(word) for word in parted(text, NUMBER, "a code is numbers, as in 0.1,-2,0")]


def wholes(text: str) -> list[int]:
    """The numbers of latents in an address.

    >>> wholes("3,1")
    [3, 1]
    """
    return [int(word) for word in parted(text, WHOLE, "latents are whole numbers, as in 3,1")]


def parted(text: str, pattern: str, rule: str) -> list[str]:
    """Words between commas that all fit a pattern."""
    words = text.split(",")
    for word in words:
        if not re.fullmatch(pattern, word):
            raise ParameterError(f"{rule}; {shortened(word)} is no such number")
    return words


def shortened(value: object) -> str:
    """What was given, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}..."


STATUS: dict[type[UntwineError], int] = {
    UntwineError: 422,
    IncompatibleError: 409,
    RunError: 409,
}


def refusal(status: int) -> Any:
    """Tell an error of the package with this status."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status)

    return told


async def refused(request: Request, error: Exception) -> JSONResponse:
    """What the framework refuses: addresses and methods that do not exist."""
    assert isinstance(error, AnyHTTPException)
    detail = error.detail
    if detail == "Not Found":
        detail = "there is no such address; /api/docs lists all there are"
    if detail == "Method Not Allowed":
        detail = (
            f"this address does not take {shortened(request.method)}; /api/docs says what it does"
        )
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def invalid(request: Request, error: Exception) -> JSONResponse:
    """A missing or wrong value, the first of them in a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = [str(part) for part in first["loc"][1:] if not isinstance(part, int)]
    name = ".".join(where) or "the body"
    if first["type"] == "missing":
        return JSONResponse({"detail": f"{name} is missing; /api/docs says what to give"}, 422)
    if first["type"] == "json_invalid":
        return JSONResponse({"detail": "the body is not JSON"}, 422)
    rule = first["msg"].removeprefix("Input ")
    given = shortened(first.get("input"))
    return JSONResponse({"detail": f"{name} {rule[0].lower()}{rule[1:]}, not {given}"}, 422)


async def broken(request: Request, error: Exception) -> JSONResponse:
    """What nobody foresaw; the server logs it and goes on."""
    detail = "this failed inside the server; its terminal shows why"
    return JSONResponse({"detail": detail}, 500, HEADERS)


def add_page(app: FastAPI) -> None:
    """The page, its files, and a page about the service itself."""

    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        return FileResponse(f"{PAGE}/index.html", headers={"cache-control": "no-cache"})

    @app.get("/api/docs", include_in_schema=False)
    def described() -> HTMLResponse:
        return HTMLResponse(manual(app.openapi()))

    app.mount("/page", StaticFiles(directory=PAGE, check_dir=False))
