"""A static copy of the page: its files, and the answers and pictures it asks for.

index.html       the page, which names the pieces below; it is replaced last, and atomically
page-HASH/       the page's files
data-HASH.js     answers by address, and the file of each picture by address
pictures-HASH/   the pictures
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import filelock

from untwine.errors import DataError
from untwine.explore.constants import (
    CLUSTER_IMAGES,
    COPY_DRAWS,
    COPY_FRAMES,
    COPY_GROUP_SEEDS,
    COPY_PATH_EXAMPLES,
    COPY_STARTS,
    DECIMALS,
    GROUP_COLUMNS,
    GROUP_ROWS,
    N_EXAMPLES,
    PATH_STEPS,
)
from untwine.explore.server import PAGE_FOLDER, application
from untwine.tools.files import sha256, write_bytes
from untwine.tools.progress import progress
from untwine.tools.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from untwine.explore.gallery import Gallery

MAX_RUNS = 12
MAX_GROUP_CLUSTERS = 10  # clusters with grids of groups
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
        about = record_runs(copy, quiet=quiet)
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


@dataclass
class Copy:
    """The answers and pictures recorded from the server."""

    app: ASGIApp
    folder: Path  # of the pictures
    answers: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # by the hash of their content

    def answer(self, address: str) -> Any:
        """Record and return an answer; `None` where the server refuses."""
        if address not in self.answers:
            content = request(self.app, address)
            if content is None:
                return None
            self.answers[address] = json.loads(content)
        return self.answers[address]

    def picture(self, address: str) -> None:
        """Record a picture; equal pictures share a file."""
        content = None if address in self.pictures else request(self.app, address)
        if content is None:
            return
        key = sha256(content)
        if key not in self.files:
            ending = address.partition("?")[0].rpartition(".")[2]
            self.files[key] = f"{len(self.files) + 1:04}.{ending}"
            (self.folder / self.files[key]).write_bytes(content)
        self.pictures[address] = self.files[key]


def record_runs(copy: Copy, *, quiet: bool) -> str:
    """Record everything a copy holds and return a sentence about it."""
    lines = copy.answer("/api/runs")
    finished = [line for line in lines if line["phase"] == "finished"]
    recorded = [line for line in finished[:MAX_RUNS] if record_run(copy, line["name"], quiet=quiet)]
    if not recorded:
        raise DataError("none of these runs is finished and can be opened; train one first")
    copy.answers["/api/runs"] = recorded
    names = [line["name"] for line in recorded]
    opening = copy.answer("/api/overview")
    opening["run"] = opening["run"] if opening["run"] in names else names[0]
    addresses = figure_addresses(copy, set(names))
    record_pictures(copy, addresses, "figures", quiet=quiet)
    if len(finished) > MAX_RUNS:
        say(f"the copy holds {MAX_RUNS} of {len(finished)} runs; name those that it should hold")
    return f"It holds {len(recorded)} of {len(lines)} runs." if len(recorded) < len(lines) else ""


def record_run(copy: Copy, name: str, *, quiet: bool) -> bool:
    """Record one run and return whether it can be opened."""
    base = f"/api/runs/{encode_name(name)}"
    if not quiet:
        say(f"reading {name}")
    if copy.answer(base) is None:
        say(f"{name} cannot be opened and is left out")
        return False
    record_pictures(copy, list(picture_addresses(copy, base)), "pictures", quiet=quiet)
    return True


def record_pictures(copy: Copy, addresses: Sequence[str], label: str, *, quiet: bool) -> None:
    """Record pictures, with a progress bar."""
    with progress(len(addresses), label, quiet=quiet or not addresses) as show:
        for done, address in enumerate(addresses):
            copy.picture(address)
            show(done + 1, "")


def figure_addresses(copy: Copy, run_names: set[str]) -> list[str]:
    """Record the table of runs, with links to the named runs; the addresses of its figures."""
    study = copy.answer("/api/study")
    if study is None:
        return []
    study["runs"] = [name if name in run_names else "" for name in study["runs"]]
    sections = copy.answer("/api/study/sections") or []
    names = [encode_name(section["name"]) for section in sections if section["figure"]]
    return [f"/api/study/figures/{name}.svg" for name in names]


def picture_addresses(copy: Copy, base: str) -> Iterator[str]:
    """Record the answers of a run; the addresses of its pictures."""
    summary = copy.answer(base)
    examples = copy.answer(f"{base}/examples?count={N_EXAMPLES}&seed=0") or []
    first = [example["index"] for example in examples]
    indices = list(first)
    for order in ("worst", "random"):
        rows = copy.answer(f"{base}/reconstructions?count={N_EXAMPLES}&order={order}&seed=0") or []
        yield from (f"{base}/reconstruction.png?index={row['index']}" for row in rows)
        indices += [row["index"] for row in rows]
    yield from code_addresses(copy, base, summary, first[:COPY_STARTS])
    for start, end in combinations(first[:COPY_PATH_EXAMPLES], 2):
        yield f"{base}/between.png?start={start}&end={end}&steps={PATH_STEPS}"
    if summary["shared"]:
        yield from group_addresses(base, summary)
    if summary["clusters"]:
        for cluster in copy.answer(f"{base}/clusters") or []:
            indices += cluster["members"]
            yield f"{base}/cluster.png?number={cluster['number']}&seed=0&count={CLUSTER_IMAGES}"
    yield from (f"{base}/image.png?index={index}" for index in indices)
    copy.answer(f"{base}/factors")
    copy.answer(f"{base}/curves")
    yield f"{base}/sheet.png"


def code_addresses(
    copy: Copy, base: str, summary: dict[str, Any], indices: Sequence[int]
) -> Iterator[str]:
    """Record codes to start from and the space of codes; the addresses of decoded pictures."""
    latents = [latent["number"] for latent in summary["latents"]]
    rows = ",".join(map(str, latents))
    starts = [f"index={index}" for index in indices]
    starts += [f"seed={seed}" for seed in range(COPY_DRAWS)]
    for query in starts:
        start = copy.answer(f"{base}/start?{query}")
        if start is not None:
            code = ",".join(map(format_number, start["code"]))
            yield f"{base}/decode.png?code={code}"
            yield f"{base}/traversals.png?code={code}&latents={rows}&steps={COPY_FRAMES}"
    if len(latents) > 1:
        copy.answer(f"{base}/space?by=latents&x={latents[0]}&y={latents[1]}")
    for by in ("pca", "tsne"):
        copy.answer(f"{base}/space?by={by}&x=0&y=1")


def group_addresses(base: str, summary: dict[str, Any]) -> Iterator[str]:
    """The addresses of grids that cross shared with own latents."""
    grid = f"rows={GROUP_ROWS}&columns={GROUP_COLUMNS}"
    for cluster in range(min(MAX_GROUP_CLUSTERS, max(1, summary["clusters"]))):
        for seed in range(COPY_GROUP_SEEDS):
            yield f"{base}/groups.png?cluster={cluster}&seed={seed}&{grid}"


def format_number(value: float) -> str:
    """Write a number of a code as the page does in an address: at most four decimals.

    JavaScript rounds ties away from zero, which Python's own rounding does not.

    >>> format_number(0.5), format_number(-0.00001), format_number(0.03125), format_number(10.0)
    ('0.5', '0', '0.0313', '10')
    """
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-DECIMALS), ROUND_HALF_UP)
    text = f"{rounded:f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def encode_name(name: str) -> str:
    """Encode a name for an address as JavaScript's encodeURIComponent does."""
    return quote(name, safe="!~*'()")


def request(app: ASGIApp, address: str) -> bytes | None:
    """The server's answer to a GET request; `None` if it refuses."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
    }
    status, parts = 0, list[bytes]()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    asyncio.run(app(scope, receive, send))  # pyright: ignore[reportArgumentType]
    return b"".join(parts) if status == 200 else None
