"""A static copy of the page: its files, and the answers and pictures it asks for.

index.html   the page, which loads data.js
page/        the page's files
data.js      answers by address, and the file of each picture by address
pictures/    the pictures
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

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
from untwine.tools.progress import progress
from untwine.tools.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from untwine.explore.gallery import Gallery

MAX_RUNS = 12
MAX_GROUP_CLUSTERS = 10  # clusters with grids of groups
DATA_PREFIX = "window.UNTWINE_COPY = "
DATA_SCRIPT = '<script src="data.js"></script>'
COPY_FILES = ("index.html", "page", "data.js", "pictures")
SCRATCH_PREFIX = ".untwine-copy-"  # of the directory in which a copy is written until complete


def write_copy(gallery: Gallery, directory: str | Path, *, quiet: bool = False) -> Path:
    """Write a static copy of the explorer into a directory and return its index.html.

    The directory is created, or holds an older copy, which is replaced once the new one is
    complete.
    """
    directory = Path(directory)
    check_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{directory} cannot be made ({error.strerror}); write the copy elsewhere"
        ) from None
    with tempfile.TemporaryDirectory(dir=directory, prefix=SCRATCH_PREFIX) as scratch:
        folder = Path(scratch)
        (folder / "pictures").mkdir()
        copy_page(folder)
        copy = Copy(application(gallery), folder)
        about = record_runs(copy, quiet=quiet)
        content = {"answers": copy.answers, "pictures": copy.pictures, "about": about}
        (folder / "data.js").write_text(f"{DATA_PREFIX}{json.dumps(content)};\n", encoding="ascii")
        for name in COPY_FILES:
            shutil.rmtree(directory / name, ignore_errors=True)
            (folder / name).replace(directory / name)
    return directory / "index.html"


def check_directory(directory: Path) -> None:
    """Refuse a directory that is neither new nor empty nor an older copy."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise DataError(f"{directory} is a file; write the copy into a new directory")
    paths = directory.iterdir()
    names = {path.name for path in paths if not path.name.startswith(SCRATCH_PREFIX)}
    data = directory / "data.js"
    is_copy = (
        names <= set(COPY_FILES)
        and data.is_file()
        and data.read_bytes().startswith(DATA_PREFIX.encode())
    )
    if names and not is_copy:
        raise DataError(f"{directory} holds other things; write the copy into a new directory")


def copy_page(folder: Path) -> None:
    """Copy the page's files; index.html loads the data before the page's own scripts."""
    shutil.copytree(
        PAGE_FOLDER, folder / "page", ignore=shutil.ignore_patterns("index.html", "__*")
    )
    text = Path(PAGE_FOLDER, "index.html").read_text(encoding="utf-8")
    before, _, after = text.partition("<!-- data:")
    (folder / "index.html").write_text(f"{before}{DATA_SCRIPT}{after.partition('-->')[2]}", "utf-8")


@dataclass
class Copy:
    """The answers and pictures recorded from the server."""

    app: ASGIApp
    folder: Path
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
        key = hashlib.sha256(content).hexdigest()
        if key not in self.files:
            ending = address.partition("?")[0].rpartition(".")[2]
            self.files[key] = f"pictures/{len(self.files) + 1:04}.{ending}"
            (self.folder / self.files[key]).write_bytes(content)
        self.pictures[address] = self.files[key]


def record_runs(copy: Copy, *, quiet: bool) -> str:
    """Record everything a copy holds and return a sentence about it."""
    lines = copy.answer("/api/runs")
    finished = [line for line in lines if line["state"] == "finished"]
    recorded = [line for line in finished[:MAX_RUNS] if record_run(copy, line["name"], quiet=quiet)]
    if not recorded:
        raise DataError("none of these runs is finished and can be opened; train one first")
    copy.answers["/api/runs"] = recorded
    addresses = figure_addresses(copy, {line["name"] for line in recorded})
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


def figure_addresses(copy: Copy, names: set[str]) -> list[str]:
    """Record the table of runs, with links to the named runs; the addresses of its figures."""
    study = copy.answer("/api/study")
    if study is None:
        return []
    study["runs"] = [name if name in names else "" for name in study["runs"]]
    figures = copy.answer("/api/study/figures") or []
    return [f"/api/study/figures/{encode_name(figure['name'])}.svg" for figure in figures]


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
