"""A static copy of the page: its files, and the answers and pictures it asks for.

index.html       the page, which names the pieces below; it is replaced last, and atomically
page-HASH/       the page's files
data-HASH.js     answers by address, and the file of each picture by address
pictures-HASH/   the pictures
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from untwine.errors import DataError
from untwine.explore.recording import Copy, record_runs
from untwine.explore.server import PAGE_FOLDER, application
from untwine.tools.files import sha256, write_bytes

if TYPE_CHECKING:
    from untwine.explore.gallery import Gallery

DATA_PREFIX = "window.UNTWINE_COPY = "
SCRATCH_PREFIX = ".untwine-copy-"  # of the directory in which a copy is written until complete
LOCK = ".untwine-copy.lock"  # while a copy is written
OLD_NAMES = frozenset({"index.html", "page", "data.js", "pictures"})  # of copies before 0.2
PIECE = re.compile(r"(page|pictures)-[0-9a-f]{12}(-[0-9a-f]{8})?|data-[0-9a-f]{12}\.js")
TEMPORARY = re.compile(r"\.(index\.html|data-[0-9a-f]{12}\.js)\.[0-9a-f]+\.tmp")


def write_copy(gallery: Gallery, directory: str | Path, *, quiet: bool = False) -> Path:
    """Write a static copy of the explorer into a directory and return its index.html.

    The directory is created, or holds an older copy, which is replaced whole or not at all: the new
    pieces are written beside the old ones, then index.html, which names them, is replaced.
    """
    directory = Path(directory)
    check_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{directory} cannot be made ({error.strerror}); write the copy elsewhere"
        ) from None
    with (
        lock_copy(directory),
        tempfile.TemporaryDirectory(dir=directory, prefix=SCRATCH_PREFIX) as scratch,
    ):
        remove_leftovers(directory, keep={Path(scratch).name})
        copy = Copy(application(gallery), Path(scratch, "pictures"))
        copy.folder.mkdir()
        about = record_runs(copy, gallery, quiet=quiet)
        publish(copy, about, directory)
    return directory / "index.html"


@contextmanager
def lock_copy(directory: Path) -> Iterator[None]:
    """Let one process at a time write a copy into a directory."""
    lock = filelock.FileLock(directory / LOCK, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DataError(f"another process is writing a copy into {directory}") from None
    try:
        yield
    finally:
        (directory / LOCK).unlink(missing_ok=True)
        lock.release()


def check_directory(directory: Path) -> None:
    """Refuse a directory that is neither new nor empty nor an older copy."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise DataError(f"{directory} is a file; write the copy into a new directory")
    names = {path.name for path in directory.iterdir() if not is_scratch(path.name)}
    unhashed = {name for name in names if not PIECE.fullmatch(name)}
    if not unhashed <= OLD_NAMES or (unhashed and not any(map(is_data, directory.glob("data*")))):
        raise DataError(f"{directory} holds other things; write the copy into a new directory")


def is_scratch(name: str) -> bool:
    """Whether an interrupted export left this behind."""
    return name == LOCK or name.startswith(SCRATCH_PREFIX) or bool(TEMPORARY.fullmatch(name))


def is_data(path: Path) -> bool:
    """Whether this is the data of a copy."""
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(len(DATA_PREFIX)) == DATA_PREFIX.encode()


def publish(copy: Copy, about: str, directory: Path) -> None:
    """Put a recorded copy into its directory, in place of an older one."""
    pages = copy.folder.with_name("page")
    ignored = shutil.ignore_patterns("index.html", "__*")
    shutil.copytree(PAGE_FOLDER, pages, ignore=ignored)
    page, pictures = place_folder(pages, directory), place_folder(copy.folder, directory)
    files = {address: f"{pictures}/{name}" for address, name in copy.pictures.items()}
    content = {"answers": copy.answers, "pictures": files, "about": about}
    script = f"{DATA_PREFIX}{json.dumps(content)};\n".encode("ascii")
    data = f"data-{sha256(script)[:12]}.js"
    write_bytes(directory / data, script)
    write_bytes(directory / "index.html", format_index(page, data).encode())
    remove_leftovers(directory, keep={"index.html", page, pictures, data})


def place_folder(folder: Path, directory: Path) -> str:
    """Move a folder into the directory, under its name and a hash of its content; that name.

    A folder of this name that was changed in the meantime stays until the new copy is complete.
    """
    digest = hash_folder(folder)
    name = f"{folder.name}-{digest[:12]}"
    if (directory / name).exists():
        if hash_folder(directory / name) == digest:
            return name
        name += f"-{secrets.token_hex(4)}"
    folder.replace(directory / name)
    return name


def hash_folder(folder: Path) -> str:
    """A hash of the names and contents of the files in a folder, which are flushed to disk."""
    lines: list[str] = []
    for file in sorted(folder.iterdir()):
        with open(file, "rb") as stream:
            lines.append(f"{file.name} {sha256(stream.read())}")
            os.fsync(stream.fileno())
    return sha256("\n".join(lines).encode())


def remove_leftovers(directory: Path, keep: set[str]) -> None:
    """Remove scratch of interrupted exports and, once there is a new index, pieces of older copies.

    Without index.html in `keep`, only scratch is removed.
    """
    for path in directory.iterdir():
        is_old = "index.html" in keep and (path.name in OLD_NAMES or PIECE.fullmatch(path.name))
        if path.name in keep or path.name == LOCK or not (is_old or is_scratch(path.name)):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def format_index(page: str, data: str) -> str:
    """The page's index.html for a copy, which loads the data before the page's own scripts."""
    text = Path(PAGE_FOLDER, "index.html").read_text(encoding="utf-8")
    before, _, after = text.partition("<!-- data:")
    text = f'{before}<script src="{data}"></script>{after.partition("-->")[2]}'
    return text.replace('"page/', f'"{page}/')
