"""Routes of what several runs show: learning curves, the study's table and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException
from fastapi import Path as InPath

from untwine.errors import ParameterError
from untwine.explore.answers import Curves, StudySection, StudyTable
from untwine.explore.routes import Drawing, Name, binary_response

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery


def study_routes(gallery: Gallery) -> APIRouter:
    """Routes of curves and studies, which open no model's data."""
    router = APIRouter(prefix="/api", tags=["studies"])

    @router.get("/runs/{run}/curves")
    def curves(run: Name) -> Curves:
        """The terms of the loss of a run during training; of a running one, so far."""
        try:
            return gallery.curves(run)
        except ParameterError as error:
            raise HTTPException(404, str(error)) from error

    @router.get("/study")
    def study() -> StudyTable:
        """The study, or all runs, as a table."""
        return gallery.study()

    @router.get("/study/sections")
    def sections() -> list[StudySection]:
        """The sections of the study's report."""
        return gallery.sections()

    @router.get("/study/figures/{name}.svg", **binary_response(Drawing))
    def figure(
        name: Annotated[str, InPath(description="Name of a section with a figure.")],
    ) -> Drawing:
        """A figure of the study's report."""
        try:
            return Drawing(gallery.figure(name))
        except ParameterError as error:
            raise HTTPException(404, str(error)) from error

    return router
