"""The routes of one run: codes, examples, decoded pictures and rows of tables."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request

from untwine.errors import ParameterError
from untwine.explore.answers import (
    Example,
    Matches,
    Numbers,
    Progress,
    Reconstructions,
    RowValues,
    Selection,
    Space,
    Start,
)
from untwine.explore.points import By, ColourBy
from untwine.explore.requests import (
    Code,
    Count,
    Dots,
    Index,
    Indices,
    LatentList,
    LevelList,
    Number,
    Seed,
    Side,
    Steps,
    Text,
    parse_ints,
    parse_numbers,
)
from untwine.explore.routes import (
    UPLOAD_BODY,
    Name,
    Picture,
    binary_response,
    cached_png,
    open_view,
)
from untwine.explore.view import Order

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery

MAX_UPLOADS_DECODED_AT_ONCE = 2  # a picture takes far more memory decoded than sent


def code_routes(gallery: Gallery) -> APIRouter:
    """Routes of codes: starting points and coordinates."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["codes"])
    # Always the same threads, as each keeps the memory of the largest picture it has decoded.
    decoders = ThreadPoolExecutor(MAX_UPLOADS_DECODED_AT_ONCE)

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
        return await asyncio.get_running_loop().run_in_executor(
            decoders, lambda: open_view(gallery, run).start_from_upload(content, levels)
        )

    @router.get("/space")
    def space(run: Name, by: By = "pca", x: Number = 0, y: Number = 1, dots: Dots = 1000) -> Space:
        """Codes of examples in two dimensions: two latents or main directions, or t-SNE."""
        return open_view(gallery, run).space(by, x, y, dots)

    @router.get("/colour")
    def colour(run: Name, by: ColourBy, number: Number = 0, dots: Dots = 1000) -> Numbers:
        """A number for each dot: a latent (number), or what the model says of its example."""
        return open_view(gallery, run).colour(by, number, dots)

    @router.post("/selection")
    def selection(run: Name, chosen: Indices) -> Selection:
        """What selected dots have in common."""
        return open_view(gallery, run).select(chosen.indices, chosen.dots)

    return router


def image_routes(gallery: Gallery) -> APIRouter:
    """Routes of examples and their reconstructions."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["images"])

    @router.get("/examples")
    def examples(run: Name, count: Count = 24, seed: Seed = 0) -> list[Example]:
        """Examples chosen at random from the sample."""
        return open_view(gallery, run).examples(count, seed)

    @router.get("/find")
    def find(run: Name, text: Text, count: Count = 24) -> Matches:
        """Examples whose file or name contains a text: how many, and the first of them."""
        return open_view(gallery, run).find(text, count)

    @router.get("/image.png", **binary_response(Picture))
    def image(run: Name, index: Index) -> Picture:
        """An example of the data."""
        return cached_png(open_view(gallery, run).image(index))

    @router.get("/sheet.png", **binary_response(Picture))
    def sheet(run: Name, dots: Dots = 1000) -> Picture:
        """The images of all dots of the space, 32 to a row."""
        return cached_png(open_view(gallery, run).sheet(dots))

    @router.get("/reconstructions")
    def reconstructions(
        run: Name, count: Count = 24, order: Order = "unlikely", seed: Seed = 0, start: Index = 0
    ) -> Reconstructions:
        """Examples in an order, from a rank on. Asking starts the measuring of all examples."""
        return open_view(gallery, run).reconstructions(count, order, seed, start)

    @router.get("/measured")
    def measured(run: Name) -> Progress:
        """How many examples are measured."""
        return open_view(gallery, run).progress()

    @router.post("/measured")
    def measure(run: Name) -> Progress:
        """Measure all examples, in the background."""
        return open_view(gallery, run).measure_all()

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


def row_routes(gallery: Gallery) -> APIRouter:
    """Routes of tables: rows of numbers in the order of the run's columns."""
    router = APIRouter(prefix="/api/runs/{run}", tags=["rows"])

    @router.get("/row.json")
    def row(run: Name, index: Index) -> RowValues:
        """An example of a table and its reconstruction."""
        return open_view(gallery, run).row_values(index)

    @router.get("/decode.json")
    def decode(run: Name, code: Code) -> list[float]:
        """The row of a code."""
        return open_view(gallery, run).decode_row(parse_numbers(code))

    @router.get("/traversals.json")
    def traversals(
        run: Name, code: Code, latents: LatentList, steps: Steps = 11
    ) -> list[list[list[float]]]:
        """For each latent the rows of its steps, in which only that latent moves."""
        view = open_view(gallery, run)
        return view.traversal_rows(parse_numbers(code), parse_ints(latents), steps)

    @router.get("/between.json")
    def between(run: Name, start: Index, end: Index, steps: Steps = 9) -> list[list[float]]:
        """Rows from one example to another, in a straight line between their codes."""
        return open_view(gallery, run).between_rows(start, end, steps)

    return router
