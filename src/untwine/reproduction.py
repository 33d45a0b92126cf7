"""The tables and figures of papers, by name: which runs they need, and what they claim.

A paper is one file in `reproduce/`: studies, written as in a study's file, and items, each a table
or figure with what to show of which study and the claims under test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.results import Folder, make_folder
from untwine.schema import unknown
from untwine.spec import load, locate
from untwine.study import Document, Mistakes, Study, parse, read_document, resolve, scaled

SCALES = ("smoke", "laptop", "paper")
ENTRIES = ("title", "about", "minutes", "studies", "measure", "show", "claims")  # of an item
ELSE = " or "  # between a dataset and what stands in where its files are not here


@dataclass(frozen=True)
class Paper:
    """One file: where its numbers come from, its studies and its items."""

    name: str
    document: Document

    def __getitem__(self, key: str) -> Any:
        return self.document.content.get(key) or {}

    def study(self, name: str) -> Document:
        """One of its studies as a document of its own, with the lines that it has here."""
        if name not in self["studies"]:
            raise UnknownNameError(unknown(f"study of {self.name}", name, self["studies"]))
        body = self["studies"][name]
        if "shipped" in body:
            return read_document(body["shipped"])
        place = ("studies", name)
        lines = {p[2:]: n for p, n in self.document.lines.items() if p[:2] == place}
        return replace(self.document, content=body, lines=lines)


@dataclass(frozen=True)
class Item:
    """A table or a figure of a paper."""

    paper: Paper
    name: str
    title: str
    studies: tuple[str, ...]
    show: tuple[Mapping[str, Any], ...]
    claims: tuple[Mapping[str, Any], ...] = ()
    measure: tuple[Mapping[str, Any], ...] = ()
    about: str = ""
    minutes: float = 0  # at laptop scale, on two cores

    @property
    def address(self) -> str:
        return f"{self.paper.name}/{self.name}"


@dataclass(frozen=True)
class Prepared:
    """An item's studies at one scale, each in its directory."""

    item: Item
    scale: str
    folders: Mapping[str, Folder]
    stand_ins: Mapping[str, str] = field(default_factory=dict[str, str])  # by what they stand for


def papers() -> list[str]:
    """The names of the papers whose tables can be run."""
    folder = resources.files("untwine").joinpath("reproduce")
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name[-5:] == ".yaml")


def read_paper(name: str) -> Paper:
    """A paper that comes with the package, or one in a file of one's own."""
    if name.endswith(".yaml") and Path(name).is_file():
        return _checked(Paper(Path(name).stem, parse(Path(name).read_text("utf-8"), name)))
    if name not in papers():
        raise UnknownNameError(unknown("paper", name, papers()))
    packed = resources.files("untwine").joinpath("reproduce", f"{name}.yaml")
    return _checked(Paper(name, parse(packed.read_text("utf-8"), f"{name}.yaml")))


def _checked(paper: Paper) -> Paper:
    """The paper, if each of its items has what an item needs; all mistakes are told at once."""
    wrong: list[tuple[int, str]] = []
    line = paper.document.line
    for key in ("title", "by", "studies", "items"):
        if not paper[key]:
            wrong.append((1, f"there must be `{key}:`"))
    for name, body in (paper["items"] or {}).items():
        lacking = [k for k in ("title", "studies", "show") if not (body or {}).get(k)]
        wrong += [(line("items", name), f"the item {name} must have `{k}:`") for k in lacking]
        for key in set(body or {}) - set(ENTRIES):
            wrong.append((line("items", name, key), unknown("entry of an item", key, ENTRIES)))
        for study in (body or {}).get("studies", ()):
            if study not in paper["studies"]:
                told = unknown(f"study of {paper.name}", study, paper["studies"])
                wrong.append((line("items", name, "studies"), told))
    if wrong:
        raise Mistakes(paper.document.name, wrong)
    return paper


def items_of(paper: Paper) -> Iterator[Item]:
    """The tables and figures of a paper, in its own order."""
    for name, body in paper["items"].items():
        lists = {key: tuple(body.get(key, ())) for key in ("studies", "show", "claims", "measure")}
        rest = {key: body[key] for key in ("title", "about", "minutes") if key in body}
        yield Item(paper, name, **lists, **rest)


def all_items() -> list[Item]:
    return [item for name in papers() for item in items_of(read_paper(name))]


def find_item(address: str) -> Item:
    """The item at PAPER/ITEM."""
    paper, slash, name = address.rpartition("/")
    found = {item.name: item for item in items_of(read_paper(paper or name))}
    if not slash:
        raise ParameterError(f"{name} has {', '.join(found)}; write {name}/{next(iter(found))}")
    if name not in found:
        raise UnknownNameError(unknown(f"item of {paper}", name, found))
    return found[name]


def prepare(
    item: Item, scale: str, out: str | Path, *, seeds: int = 0, stand_ins: bool = False
) -> Prepared:
    """The studies of an item, planned and checked; runs that items share are made once.

    Args:
        item: what is to be run.
        scale: smoke, laptop or paper.
        out: the directory that holds all reproductions.
        seeds: how many, instead of the file's own number.
        stand_ins: take the stand-in even where the real data are here.
    """
    if scale not in SCALES:
        raise UnknownNameError(unknown("scale", scale, SCALES))
    folders: dict[str, Folder] = {}
    used: dict[str, str] = {}
    for name in item.studies:
        study = planned(item.paper, name, scale, used, seeds=seeds, stand_ins=stand_ins)
        folders[name] = make_folder(study, out, runs=str(Path(out) / "runs"))
    return Prepared(item, scale, folders, used)


def planned(
    paper: Paper,
    name: str,
    scale: str,
    used: dict[str, str],
    *,
    seeds: int = 0,
    stand_ins: bool = False,
) -> Study:
    """A study of a paper at a scale; stand-ins that it takes are added to `used`."""
    document = scaled(paper.study(name), scale)
    data = document.content["data"]
    listed = [data] if isinstance(data, str) else data
    chosen = [choose_data(text, used, stand_ins) for text in listed]
    ending = "-stand-ins" if stand_ins else ""
    content = {
        **document.content,
        "study": f"{paper.name}-{name}-{scale}{ending}",
        "data": chosen,
        **({"seeds": seeds} if seeds else {}),
    }
    return resolve(replace(document, content=content))


def choose_data(text: str, used: dict[str, str], stand_ins: bool) -> str:
    """Of `real or stand-in` the first whose files are here; what stands in is noted."""
    real, either, other = text.partition(ELSE)
    if not either:
        _check_here(real)
        return real
    if not stand_ins and is_here(real):
        return real
    used[real] = other
    return other


def is_here(data: str) -> bool:
    """Whether a dataset can be opened without a download."""
    try:
        _check_here(data)
    except DataError:
        return False
    return True


def _check_here(data: str) -> None:
    """Refuse data whose files are not here, in its own sentence."""
    from untwine.datasets._files import offline
    from untwine.registry import datasets

    entry, given = locate(data)
    with offline():
        load(datasets.choose(entry.name, **given))
