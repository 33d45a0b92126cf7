"""The web service: views of runs as JSON and PNG, and the page that shows them.

A bad request is answered with a 4xx status and {"detail": "a sentence"}. `AccessControl` checks the
host, the origin, the token and the size of every request first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect

from untwine import __version__
from untwine.errors import IncompatibleError, RunError, UntwineError
from untwine.explore.answers import (
    Cluster,
    FactorTable,
    Overview,
    RunLine,
    RunSummary,
)
from untwine.explore.constants import PAGE
from untwine.explore.requests import abbreviate
from untwine.explore.routes import REFUSALS, Name, open_view
from untwine.explore.run_routes import code_routes, decoded_routes, image_routes, row_routes
from untwine.explore.security import HEADERS, AccessControl
from untwine.explore.study_routes import study_routes

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
PAGE_FOLDER = str(PAGE)
MAX_REQUEST_LINE = 2**16  # bytes of a request without its body; addresses contain codes


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
        row_routes(gallery),
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
