"""HTML pages of sections: a figure, picture or table, with a sentence that says what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.pictures import inline, png
from untwine.progress import progress
from untwine.store import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGE = 300  # pixels of width to which small pictures are enlarged


@dataclass(frozen=True)
class Section:
    """A part of a page; what is drawn becomes `svg` or `image` when it is saved."""

    name: str
    title: str
    sentence: str
    figure: Figure | None = None
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    picture: NDArray[np.uint8] | None = None  # (H, W, 3)
    svg: str = ""
    image: str = ""

    @property
    def files(self) -> list[str]:
        """What of it is saved beside the page."""
        drawn = ["svg", "png"] if self.svg else ["png"] if self.image else []
        return [f"figures/{self.name}.{ending}" for ending in drawn]


def save_figures(sections: Iterable[Section], folder: Path, *, quiet: bool) -> list[Section]:
    """Sections with their figures as SVG and pictures as addresses, which are also files."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    found = list(sections)
    kept: list[Section] = []
    with progress(len(found), "drawing", quiet=quiet) as show:
        for section in found:
            kept.append(_saved(section, folder / "figures"))
            show(len(kept), section.title)
    return kept


def _saved(section: Section, folder: Path) -> Section:
    if section.picture is not None:
        times = max(1, round(LARGE / section.picture.shape[1]))
        large = section.picture.repeat(times, 0).repeat(times, 1)
        write_bytes(folder / f"{section.name}.png", png(large))
        return replace(section, picture=None, image=inline(section.picture))
    if section.figure is None:
        return section
    stream = io.StringIO()
    section.figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    write_bytes(folder / f"{section.name}.svg", text.encode())
    section.figure.savefig(folder / f"{section.name}.png", dpi=150)
    return replace(section, figure=None, svg=text[text.index("<svg") :])


def file_name(*words: str) -> str:
    """Words as the name of a section, which is also that of its files."""
    return re.sub(r"[^\w-]+", "-", "-".join(words)).strip("-")


def render(template: str, **values: Any) -> bytes:
    """A page from one of the templates; what a template names and nobody gives is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("untwine", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(**values).encode()


def markdown(section: Section) -> str:
    """A section as Markdown, its figures by the files beside it."""
    lines = [f"**{section.title}.** {section.sentence}", ""]
    pictures = [file for file in section.files if file.endswith(".png")]
    lines += [f"![{section.title}]({file})" for file in pictures]
    if section.header:
        lines.append("| " + " | ".join(section.header) + " |")
        lines.append("|" + "---|" * len(section.header))
        lines += ["| " + " | ".join(row) + " |" for row in section.rows]
    return "\n".join(lines)
