"""What stands behind `untwine data`: which data there is, where it lies, whether it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from untwine.data import Dataset, Factors
from untwine.datasets._files import File, cache_directory, is_published, obtain, offline
from untwine.errors import DataError, UntwineError
from untwine.registry import Choice, Entry, datasets
from untwine.spec import Settings, load, locate
from untwine.store import write_bytes

Rows = list[list[str]]
SOME = 256  # examples that a check looks at


def files_of(entry: Entry) -> tuple[File, ...]:
    """The published files that a dataset needs."""
    return entry.facts.get("files", ())


def overview() -> tuple[list[str], Rows]:
    """A row for every dataset."""
    header = ["name", "title", "paper", "examples", "factors", "licence", "files", "stand-in"]
    return header, [_row(datasets[name]) for name in datasets]


def _row(entry: Entry) -> list[str]:
    examples, factors = _content(entry)
    return [
        entry.name,
        entry.title,
        entry.paper,
        examples,
        factors,
        str(entry.facts.get("licence", "yours")),
        _presence(entry),
        str(entry.facts.get("standin", "")),
    ]


def _content(entry: Entry) -> tuple[str, str]:
    """How many examples of what, and the factors: as declared, or found where that is quick."""
    declared: tuple[str, ...] = entry.facts.get("factors", ())
    if "examples" in entry.facts:
        return entry.facts["examples"], ", ".join(declared)
    choice = datasets.choose(entry.name)
    if choice.params.get("path") or any(needs(choice)):
        return "", ", ".join(declared)
    try:
        with offline(idle=True):
            data = datasets.make(choice)
    except UntwineError:
        return "", ", ".join(declared)
    return _extent(data), ", ".join(data.factors.names) if data.factors else ""


def _extent(data: Dataset) -> str:
    return f"{len(data):,} of {'x'.join(map(str, data.shape))}"


def _presence(entry: Entry) -> str:
    """Whether the files of a dataset are on this machine, in a word."""
    choice = datasets.choose(entry.name)
    needed = [file for _, file in needs(choice)]
    there = sum(file.found is not None for file in needed)
    if not needed:
        return "your own" if choice.params.get("path") else "needs none"
    return "here" if there == len(needed) else f"{there} of {len(needed)} here"


def needs(choice: Choice) -> Iterator[tuple[str, File]]:
    """The files behind a choice with the datasets they belong to, also those it is made of."""
    if not choice.params.get("path"):
        settings = {f"{name}={value}" for name, value in choice.params.items()}
        for file in files_of(datasets[choice.name]):
            if not file.only or file.only in settings:
                yield choice.name, file
    for part in _parts(choice):
        yield from needs(part)


def _parts(choice: Choice) -> Iterator[Choice]:
    """The datasets that a choice names in its parameters, as `of=mnist` does."""
    for name in datasets[choice.name].expressions if not choice.params.get("path") else ():
        entry, given = locate(str(choice.params[name]))
        yield datasets.choose(entry.name, **given)


def chosen(data: str, settings: Iterable[str] = ()) -> Choice:
    """What a text such as `mnist` or `mnist-01(of=digits)` names, with settings as `size=32`."""
    entry, given = locate(data)
    asked = Settings.read(settings)
    asked.check([entry])
    return datasets.choose(entry.name, **{**given, **asked.of(entry)})


def fetch(data: str, *, quiet: bool = False) -> list[Path]:
    """Bring the files of a dataset to this machine; where they are comes back."""
    wanted: dict[str, list[File]] = {}
    for name, file in needs(chosen(data)):
        wanted.setdefault(name, []).append(file)
    return [path for name, files in wanted.items() for path in obtain(name, files, quiet=quiet)]


def where(data: str) -> Rows:
    """Paths, each with what it is: the cache, the files, and the decoded copies."""
    choice = chosen(data)
    rows = [["cache", str(cache_directory())]]
    if choice.params.get("path"):
        rows.append(["your own", str(choice.params["path"])])
    for _, file in needs(choice):
        rows.append(["file" if file.found else "missing", str(file.found or file.place)])
    names = {choice.name, *(part.name for part in _parts(choice))}
    return rows + [["decoded", str(path)] for name in sorted(names) for path in _decoded(name)]


def _decoded(name: str) -> list[Path]:
    """The folders of the cache that hold decoded arrays of a dataset."""
    form = re.compile(rf"{re.escape(name)}(-[a-z]+|-\d+)?-([0-9a-f]{{16}}|\d+)(-.+)?")
    return sorted(path for path in cache_directory().glob(f"{name}-*") if form.fullmatch(path.name))


def check(data: str, settings: Iterable[str] = ()) -> Rows:
    """What was found right about a dataset; what is wrong is raised in a sentence."""
    choice = chosen(data, settings)
    rows = [["file", _checked(name, file)] for name, file in needs(choice) if file.found]
    with offline():
        loaded = load(choice)
    _check_examples(data, loaded)
    rows.append(["examples", _extent(loaded)])
    if loaded.factors:
        _check_factors(data, loaded.factors, len(loaded))
        known = zip(loaded.factors.names, loaded.factors.sizes, strict=True)
        rows.append(["factors", ", ".join(f"{name} {size}" for name, size in known)])
    if loaded.groups is not None and len(loaded.groups) != len(loaded):
        raise DataError(f"{data} has {len(loaded)} examples but {len(loaded.groups)} groups")
    return rows


def _checked(name: str, file: File) -> str:
    """A word about a file that is right; one that is not is refused."""
    path = file.found or file.place
    if not is_published(path, file, fresh=True):
        raise DataError(
            f"{path} is not the published file of {name} (which has {file.mark}); delete it and "
            f"write: untwine data fetch {name}"
        )
    return f"{path} {'has the published checksum' if file.hash else 'is there'}"


def _check_examples(name: str, data: Dataset) -> None:
    """Draw some examples, the first and the last among them."""
    if not len(data):
        raise DataError(f"{name} has no examples")
    index = np.random.default_rng(0).integers(len(data), size=SOME)
    x = data.take(np.concatenate([[0, len(data) - 1], index]))
    if x.shape[1:] != data.shape or not x.isfinite().all():
        raise DataError(
            f"{name} has examples of shape {tuple(x.shape[1:])}, or that are no numbers"
        )
    if data.bounded and not 0 <= x.min() <= x.max() <= 1:
        raise DataError(f"{name} has values outside [0, 1]: {x.min():g} to {x.max():g}")


def _check_factors(name: str, factors: Factors, n: int) -> None:
    """The levels of every example must be there and within their number."""
    if factors.table is None:
        if np.prod(factors.sizes) != n:
            raise DataError(f"{name} has {n} examples but {np.prod(factors.sizes)} combinations")
        return
    table = factors.table
    if table.shape != (n, len(factors.names)) or len(factors.sizes) != len(factors.names):
        raise DataError(f"{name} has {n} examples but factors of shape {table.shape}")
    if (table.min(0) < 0).any() or (table.max(0) >= np.array(factors.sizes)).any():
        raise DataError(f"{name} has levels of a factor beyond their number {factors.sizes}")


def look(data: str, settings: Iterable[str] = (), out: Path | None = None) -> Path:
    """Write a contact sheet; where it is comes back."""
    from untwine.sheets import sheet

    choice = chosen(data, settings)
    content = sheet(load(choice), _title(data))
    path = out or Path(f"{choice.name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return path


def _title(data: str) -> str:
    """What was asked for, without the folders in front of files.

    >>> _title("mnist-01(of=mnist(path=/a/b/c), zeros=0.2)")
    'mnist-01(of=mnist(path=c), zeros=0.2)'
    """
    return re.sub(r"[^=,()]*/(?=[^/])", "", data)
