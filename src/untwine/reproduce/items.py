"""The tables and figures of papers, by name: the runs they need and the claims they make.

A paper is a folder in `papers/`. Its `items.yaml` holds studies, written as in a study file, and
items. An item is a table or figure: its studies, what to show of them, and the claims to test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from untwine.data.opening import load_dataset, resolve_dataset
from untwine.errors import DamagedFile, DataError, ParameterError, UnknownNameError
from untwine.schema import unknown_name
from untwine.study.document import Document, StudyFileErrors, at_scale, parse, read_document
from untwine.study.file import Study, expand
from untwine.study.folder import StudyFolder, make_folder
from untwine.tools.sealed import check_shape

FINGERPRINT_LENGTH = 12  # characters
SCALES = ("smoke", "laptop", "paper")
ITEM_KEYS = ("title", "about", "minutes", "studies", "measure", "show", "claims")
STUDY = {"shipped?": str, "data?": (str, [str]), str: object}
ITEM = {
    **dict.fromkeys(("title?", "about?"), str),
    "minutes?": float,
    "studies?": [str],
    "show?": [{str: object}],
    "measure?": [{str: object}],
    "claims?": [{"says": str, "name?": str, str: object}],
    str: object,
}
PAPER = {
    "studies?": ({str: {**STUDY, "scales?": ({str: STUDY}, None)}}, None),
    "items?": ({str: (ITEM, None)}, None),
    str: object,
}
"""The shape of a paper's file, as in `tools/sealed.py`."""

STAND_IN_SEPARATOR = " or "  # between a dataset and the one that replaces it if files are missing
STAND_IN_ENDING = "-stand-ins"  # of names of studies and pages that use stand-ins by request


@dataclass(frozen=True)
class Paper:
    """A paper: its bibliography, its studies and its items."""

    name: str
    document: Document

    def __getitem__(self, key: str) -> Any:
        return self.document.content.get(key) or {}

    def study(self, name: str) -> Document:
        """Return one of the studies as a document that keeps its line numbers in this file."""
        if name not in self["studies"]:
            raise UnknownNameError(unknown_name(f"study of {self.name}", name, self["studies"]))
        body = self["studies"][name]
        if "shipped" in body:
            return read_document(body["shipped"])
        prefix = ("studies", name)
        lines = {p[2:]: n for p, n in self.document.lines.items() if p[:2] == prefix}
        return replace(self.document, content=body, lines=lines)


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper."""

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
class PreparedItem:
    """An item's studies at one scale, each in its directory."""

    item: Item
    scale: str
    folders: Mapping[str, StudyFolder]
    stand_ins: Mapping[str, str] = field(default_factory=dict[str, str])  # by what they replace


def paper_names() -> list[str]:
    """Return the names of the papers that can be reproduced."""
    folders = resources.files("untwine.reproduce.papers").iterdir()
    return sorted(f.name.replace("_", "-") for f in folders if f.joinpath("items.yaml").is_file())


def read_paper(name: str) -> Paper:
    """Read a paper of this package by its name, or one from a YAML file."""
    if name.endswith(".yaml") and Path(name).is_file():
        return _check_paper(Paper(Path(name).stem, read_document(name)))
    if name not in paper_names():
        raise UnknownNameError(unknown_name("paper", name, paper_names()))
    folder = resources.files("untwine.reproduce.papers").joinpath(name.replace("-", "_"))
    return _check_paper(
        Paper(name, parse(folder.joinpath("items.yaml").read_text("utf-8"), f"{name}.yaml"))
    )


def read_causes(name: str) -> dict[str, str]:
    """Return a sentence for each claim on why it came out so, written after the runs."""
    folder = resources.files("untwine.reproduce.papers").joinpath(name.replace("-", "_"))
    file = folder.joinpath("causes.yaml")
    return dict(parse(file.read_text("utf-8"), "causes.yaml").content) if file.is_file() else {}


def _check_paper(paper: Paper) -> Paper:
    """Return the paper if its file is valid; otherwise report all mistakes at once."""
    mistakes: list[tuple[int, str]] = []
    line = paper.document.line
    try:
        check_shape(paper.document.content, PAPER)
    except DamagedFile as error:
        raise ParameterError(f"{paper.document.name}: {error}") from None
    for name, body in (paper["studies"] or {}).items():
        if "shipped" not in body and "data" not in body:
            mistakes.append((line("studies", name), f"the study {name} must have `data:`"))
    for key in ("title", "by", "studies", "items"):
        if not paper[key]:
            mistakes.append((1, f"`{key}:` is missing"))
    for name, body in (paper["items"] or {}).items():
        missing = [k for k in ("title", "studies", "show") if not (body or {}).get(k)]
        mistakes += [(line("items", name), f"the item {name} must have `{k}:`") for k in missing]
        for key in set(body or {}) - set(ITEM_KEYS):
            mistakes.append(
                (line("items", name, key), unknown_name("entry of an item", key, ITEM_KEYS))
            )
        for study in (body or {}).get("studies", ()):
            if study not in paper["studies"]:
                message = unknown_name(f"study of {paper.name}", study, paper["studies"])
                mistakes.append((line("items", name, "studies"), message))
    if mistakes:
        raise StudyFileErrors(paper.document.name, mistakes)
    return paper


def items_of(paper: Paper) -> Iterator[Item]:
    """Iterate over the tables and figures of a paper, in file order."""
    for name, body in paper["items"].items():
        lists = {key: tuple(body.get(key, ())) for key in ("studies", "show", "claims", "measure")}
        rest = {key: body[key] for key in ("title", "about", "minutes") if key in body}
        yield Item(paper, name, **lists, **rest)


def all_items() -> list[Item]:
    """Return the items of all papers."""
    return [item for name in paper_names() for item in items_of(read_paper(name))]


def find_items(address: str) -> list[Item]:
    """Return the item at PAPER/ITEM, or all items of PAPER, cheapest first."""
    if address in paper_names() or address.endswith(".yaml"):
        return sorted(items_of(read_paper(address)), key=lambda item: item.minutes)
    return [find_item(address)]


def find_item(address: str) -> Item:
    """Return the item at PAPER/ITEM."""
    paper, _, name = address.rpartition("/")
    items = {item.name: item for item in items_of(read_paper(paper or name))}
    if name not in items:
        raise UnknownNameError(unknown_name(f"item of {paper}", name, items))
    return items[name]


def prepare(
    item: Item, scale: str, out: str | Path, *, seeds: int = 0, stand_ins: bool = False
) -> PreparedItem:
    """Plan and check the studies of an item. Items share runs: each is trained once.

    Args:
        item: the table or figure.
        scale: smoke, laptop or paper.
        out: directory of all reproductions.
        seeds: number of seeds; that of the file by default.
        stand_ins: use stand-ins even if the real data is available.
    """
    if scale not in SCALES:
        raise UnknownNameError(unknown_name("scale", scale, SCALES))
    folders: dict[str, StudyFolder] = {}
    used: dict[str, str] = {}
    for name in item.studies:
        study = plan_study(item.paper, name, scale, used, seeds=seeds, stand_ins=stand_ins)
        folders[name] = make_folder(
            study,
            out,
            storage=str(Path(out) / "runs"),
            fingerprints=fingerprints(item.paper, name, scale),
        )
    return PreparedItem(item, scale, folders, used)


def fingerprints(paper: Paper, study: str, scale: str) -> dict[str, str]:
    """Return a fingerprint of a study's settings, and of each claim that is tested on it."""
    bodies: dict[str, Any] = {"settings": at_scale(paper.study(study), scale).content}
    for claim in (claim for item in items_of(paper) for claim in item.claims):
        if any(isinstance(body, Mapping) and body.get("study") == study for body in claim.values()):
            bodies[f"claim {claim.get('name') or claim['says']}"] = claim
    return {name: _fingerprint(body) for name, body in bodies.items()}


def _fingerprint(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_LENGTH]


def plan_study(
    paper: Paper,
    name: str,
    scale: str,
    used: dict[str, str],
    *,
    seeds: int = 0,
    stand_ins: bool = False,
) -> Study:
    """Return a study of a paper at a scale; add the stand-ins it needs to `used`."""
    document = at_scale(paper.study(name), scale)
    data = document.content["data"]
    texts = [data] if isinstance(data, str) else data
    ending = STAND_IN_ENDING if stand_ins else ""
    content = {
        **document.content,
        "study": f"{paper.name}-{name}-{scale}{ending}",
        "data": [choose_data(text, used, stand_ins) for text in texts],
        **({"seeds": seeds} if seeds else {}),
    }
    return expand(replace(document, content=content))


def choose_data(text: str, used: dict[str, str], stand_ins: bool) -> str:
    """Choose from `real or stand-in`; a stand-in is added to `used`."""
    real, separator, other = text.partition(STAND_IN_SEPARATOR)
    if not separator:
        _require_files(real)
        return real
    if not stand_ins and opens_offline(real):
        return real
    used[real] = other
    return other


def opens_offline(data: str) -> bool:
    """Whether a dataset can be opened without a download."""
    try:
        _require_files(data)
    except DataError:
        return False
    return True


def _require_files(data: str) -> None:
    """Raise the dataset's own error if its files are missing."""
    from untwine.data.cache import offline
    from untwine.registry import datasets

    entry, params = resolve_dataset(data)
    with offline():
        load_dataset(datasets.choose(entry.name, **params))
