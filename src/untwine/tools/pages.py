"""HTML pages made of sections: a figure, picture or table, and a sentence about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.tools.figures import draw_svg, themed
from untwine.tools.files import write_bytes
from untwine.tools.images import data_url, encode_png
from untwine.tools.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE_WIDTH = 300  # pixels to which narrower pictures are enlarged in files, about


SHOWS_DATA = " (with images of the data)"  # ends the title of a picture that shows such


@dataclass(frozen=True)
class Section:
    """A part of a page; `save_figures` turns `figure` and `picture` into `svg` and `image`."""

    name: str
    title: str
    sentence: str
    figure: Figure | None = None
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()  # positions of cells to emphasise
    points: tuple[str, ...] = ()  # sentences of a list
    folded: bool = False  # the table is folded away
    picture: NDArray[np.uint8] | None = None  # (H, W, 3)
    shows_data: bool = False  # the picture contains images of the dataset itself
    svg: str = ""
    image: str = ""

    @property
    def files(self) -> list[str]:
        """Paths of the figure's files, relative to the page."""
        suffixes = ["svg", "png", "pdf"] if self.svg else ["png"] if self.image else []
        return [f"figures/{self.name}.{suffix}" for suffix in suffixes]


def save_figures(sections: Iterable[Section], folder: Path, *, quiet: bool) -> list[Section]:
    """Write figures and pictures to files; return the sections with them inlined."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    sections = list(sections)
    saved: list[Section] = []
    with progress(len(sections), "drawing", quiet=quiet) as show:
        for section in sections:
            saved.append(_save_figure(section, folder / "figures"))
            show(len(saved), section.title)
    return saved


def _save_figure(section: Section, folder: Path) -> Section:
    if section.picture is not None:
        times = max(1, round(FILE_WIDTH / section.picture.shape[1]))
        large = section.picture.repeat(times, 0).repeat(times, 1)
        write_bytes(folder / f"{section.name}.png", encode_png(large))
        return replace(section, picture=None, image=data_url(encode_png(section.picture)))
    if section.figure is None:
        return section
    text = draw_svg(section.figure)
    write_bytes(folder / f"{section.name}.svg", text.encode())
    section.figure.savefig(folder / f"{section.name}.png", dpi=150)
    section.figure.savefig(folder / f"{section.name}.pdf", metadata={"CreationDate": None})
    return replace(section, figure=None, svg=themed(text))


def file_name(*words: str) -> str:
    """Join words into the name of a section and of its files."""
    return re.sub(r"[^\w-]+", "-", "-".join(words)).strip("-")


def render(template: str, **values: Any) -> bytes:
    """Render a template; a value that it names and the caller omits is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("untwine.tools", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(**values).encode()


def markdown(section: Section) -> str:
    """Return a section as Markdown, with links to the files of its figures."""
    lines = [f"**{section.title}.** {section.sentence}", ""]
    pictures = [file for file in section.files if file.endswith(".png")]
    title = section.title + (SHOWS_DATA if section.shows_data else "")
    lines += [f"![{title}]({file})" for file in pictures]
    if section.header:
        lines.append("| " + " | ".join(section.header) + " |")
        lines.append("|" + "---|" * len(section.header))
        lines += ["| " + " | ".join(row) + " |" for row in section.rows]
    return "\n".join(lines)
