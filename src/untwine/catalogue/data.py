"""List, fetch, locate, check and preview datasets: the functions behind `untwine data`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from untwine.data.cache import cache_directory, offline, read_arrays
from untwine.data.dataset import Dataset, Factors
from untwine.data.files import File, is_published, obtain
from untwine.data.opening import load_dataset, resolve_dataset
from untwine.errors import DataError, RunError, UntwineError
from untwine.registry import Choice, Entry, datasets
from untwine.runs.describe import strip_folders
from untwine.settings import Settings
from untwine.tools.files import write_bytes

Rows = list[list[str]]
N_CHECKED = 256  # random examples that a check draws


def files_of(entry: Entry) -> tuple[File, ...]:
    """The published files of a dataset."""
    return entry.metadata.get("files", ())


def overview() -> tuple[list[str], Rows]:
    """Header and rows of the table of datasets."""
    header = ["name", "title", "paper", "examples", "factors", "licence", "files", "stand-in"]
    return header, [_row(datasets[name]) for name in datasets]


def _row(entry: Entry) -> list[str]:
    examples, factors = _describe_content(entry)
    return [
        entry.name,
        entry.title,
        entry.paper,
        examples,
        factors,
        str(entry.metadata.get("licence", "yours")),
        _presence(entry),
        str(entry.metadata.get("standin", "")),
    ]


def _describe_content(entry: Entry) -> tuple[str, str]:
    """Number and shape of the examples, and the factors: declared, or measured where quick."""
    declared: tuple[str, ...] = entry.metadata.get("factors", ())
    if "examples" in entry.metadata:
        return entry.metadata["examples"], ", ".join(declared)
    choice = datasets.choose(entry.name)
    if choice.params.get("path") or any(required_files(choice)):
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
    """A few words on whether the files of a dataset are on this machine."""
    choice = datasets.choose(entry.name)
    needed = [file for _, file in required_files(choice)]
    present = sum(file.local_path is not None for file in needed)
    if not needed:
        return "your own" if choice.params.get("path") else "needs none"
    return "here" if present == len(needed) else f"{present} of {len(needed)} here"


def required_files(choice: Choice) -> Iterator[tuple[str, File]]:
    """(dataset, file) for every file that a choice needs, including those of its inner datasets."""
    if not choice.params.get("path"):
        settings = {f"{name}={value}" for name, value in choice.params.items()}
        for file in files_of(datasets[choice.name]):
            if not file.only or file.only in settings:
                yield choice.name, file
    for part in _inner_choices(choice):
        yield from required_files(part)


def _inner_choices(choice: Choice) -> Iterator[Choice]:
    """The datasets that a choice names in its parameters, such as `of=mnist`."""
    for name in datasets[choice.name].expressions if not choice.params.get("path") else ():
        entry, params = resolve_dataset(str(choice.params[name]))
        yield datasets.choose(entry.name, **params)


def choose_dataset(data: str, settings: Iterable[str] = ()) -> Choice:
    """The choice for an expression such as `mnist-01(of=digits)` and settings such as `size=32`."""
    entry, params = resolve_dataset(data)
    changes = Settings.read(settings)
    changes.check([entry])
    return datasets.choose(entry.name, **{**params, **changes.params_of(entry)})


def fetch(data: str, *, quiet: bool = False) -> list[Path]:
    """Download the missing files of a dataset; return the paths of all of them."""
    wanted: dict[str, list[File]] = {}
    for name, file in required_files(choose_dataset(data)):
        wanted.setdefault(name, []).append(file)
    return [path for name, files in wanted.items() for path in obtain(name, files, quiet=quiet)]


def dataset_paths(data: str) -> Rows:
    """Rows (kind, path): the cache, the files, and the decoded copies of a dataset."""
    choice = choose_dataset(data)
    rows = [["cache", str(cache_directory())]]
    if choice.params.get("path"):
        rows.append(["your own", str(choice.params["path"])])
    for _, file in required_files(choice):
        rows.append(
            ["file" if file.local_path else "missing", str(file.local_path or file.cache_path)]
        )
    names = {choice.name, *(part.name for part in _inner_choices(choice))}
    return rows + [
        ["decoded", str(path)] for name in sorted(names) for path in _decoded_folders(name)
    ]


def _decoded_folders(name: str) -> list[Path]:
    """The folders of the cache that hold decoded arrays of a dataset."""
    form = re.compile(rf"{re.escape(name)}(-[a-z]+|-\d+)?-([0-9a-f]{{16}}|\d+)(-.+)?")
    return sorted(path for path in cache_directory().glob(f"{name}-*") if form.fullmatch(path.name))


def check(data: str, settings: Iterable[str] = ()) -> Rows:
    """Check the files, examples and factors of a dataset; return what was verified."""
    choice = choose_dataset(data, settings)
    rows = [
        ["file", _verify_file(name, file)]
        for name, file in required_files(choice)
        if file.local_path
    ]
    rows += [["decoded", _verify_decoded(path)] for path in _decoded_folders(choice.name)]
    with offline():
        loaded = load_dataset(choice)
    _check_examples(data, loaded)
    rows.append(["examples", _extent(loaded)])
    if loaded.factors:
        _check_factors(data, loaded.factors, len(loaded))
        factors = zip(loaded.factors.names, loaded.factors.sizes, strict=True)
        rows.append(["factors", ", ".join(f"{name} {size}" for name, size in factors)])
    if loaded.groups is not None and len(loaded.groups) != len(loaded):
        raise DataError(f"{data} has {len(loaded)} examples but {len(loaded.groups)} groups")
    return rows


def _verify_file(name: str, file: File) -> str:
    """Verify a file against its published checksum; return a line that says so."""
    path = file.local_path or file.cache_path
    if not is_published(path, file, fresh=True):
        raise DataError(
            f"{path} is not the published file of {name} (which has {file.fingerprint}); "
            f"delete it and write: untwine data fetch {name}"
        )
    return f"{path} {'has the published checksum' if file.hash else 'is there'}"


def _verify_decoded(folder: Path) -> str:
    """Verify a decoded copy against its checksums; a damaged one is made again when it is used."""
    try:
        read_arrays(folder, fresh=True)
    except RunError as error:
        return f"{error}; it is decoded again when it is used"
    return f"{folder} has its checksums"


def _check_examples(name: str, data: Dataset) -> None:
    """Refuse examples of a wrong shape or range, in a random sample with the first and last."""
    if not len(data):
        raise DataError(f"{name} has no examples")
    index = np.random.default_rng(0).integers(len(data), size=N_CHECKED)
    x = data.take(np.concatenate([[0, len(data) - 1], index]))
    if x.shape[1:] != data.shape or not x.isfinite().all():
        raise DataError(
            f"{name} has examples of shape {tuple(x.shape[1:])}, or that are no numbers"
        )
    if data.in_unit_interval and not 0 <= x.min() <= x.max() <= 1:
        raise DataError(f"{name} has values outside [0, 1]: {x.min():g} to {x.max():g}")


def _check_factors(name: str, factors: Factors, n: int) -> None:
    """Refuse factors whose table has a wrong shape or levels out of range."""
    if factors.table is None:
        if np.prod(factors.sizes) != n:
            raise DataError(f"{name} has {n} examples but {np.prod(factors.sizes)} combinations")
        return
    table = factors.table
    if table.shape != (n, len(factors.names)) or len(factors.sizes) != len(factors.names):
        raise DataError(f"{name} has {n} examples but factors of shape {table.shape}")
    if (table.min(0) < 0).any() or (table.max(0) >= np.array(factors.sizes)).any():
        raise DataError(f"{name} has levels of a factor beyond their number {factors.sizes}")


def preview(data: str, settings: Iterable[str] = (), out: Path | None = None) -> Path:
    """Write a contact sheet of a dataset; return its path."""
    from untwine.catalogue.sheets import contact_sheet

    choice = choose_dataset(data, settings)
    content = contact_sheet(load_dataset(choice), strip_folders(data))
    path = out or Path(f"{Path(str(choice.params.get('path') or '')).stem or choice.name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return path
