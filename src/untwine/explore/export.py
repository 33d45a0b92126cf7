"""A copy of the page that needs no server: its files, and the answers and pictures it asks for.

index.html   the page, which reads data.js
page/        its files
data.js      answers by the address that the page would ask, and where the pictures are
pictures/    what was drawn
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
from untwine.explore.server import PAGE, application
from untwine.progress import progress
from untwine.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from untwine.explore.place import Place

MOST = 12  # runs of a copy
SHOWN = 24  # examples and reconstructions
STARTS = 8  # examples to start from
DRAWS = 4  # codes drawn from the prior to start from
FRAMES = 21  # of a traversal
PAIRED = 6  # examples between which there are images
SEEDS = 3  # of grids of groups
CLUSTERS = 10
MARK = "window.UNTWINE_COPY = "
OWN = ("index.html", "page", "data.js", "pictures")
SCRATCH = ".untwine-copy-"  # where a copy is made until it is whole
DATA = '<script src="data.js"></script>'


def write_copy(place: Place, directory: str | Path, *, quiet: bool = False) -> Path:
    """Write what the page shows of runs into a directory, and say where its index.html is.

    The directory is made, or holds an older copy, which is replaced when the new one is whole.
    """
    directory = Path(directory)
    refuse_other_things(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{directory} cannot be made ({error.strerror}); write the copy elsewhere"
        ) from None
    with tempfile.TemporaryDirectory(dir=directory, prefix=SCRATCH) as scratch:
        made = Path(scratch)
        (made / "pictures").mkdir()
        copy_page(made)
        copy = Copy(application(place), made)
        about = record(copy, quiet=quiet)
        content = {"answers": copy.answers, "pictures": copy.pictures, "about": about}
        (made / "data.js").write_text(f"{MARK}{json.dumps(content)};\n", encoding="ascii")
        for name in OWN:
            shutil.rmtree(directory / name, ignore_errors=True)
            (made / name).replace(directory / name)
    return directory / "index.html"


def refuse_other_things(directory: Path) -> None:
    """Refuse a directory that is neither new nor empty nor an older copy."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise DataError(f"{directory} is a file; write the copy into a new directory")
    there = {path.name for path in directory.iterdir() if not path.name.startswith(SCRATCH)}
    data = directory / "data.js"
    is_copy = there <= set(OWN) and data.is_file() and data.read_bytes().startswith(MARK.encode())
    if there and not is_copy:
        raise DataError(f"{directory} holds other things; write the copy into a new directory")


def copy_page(folder: Path) -> None:
    """The page's files; index.html reads the data before its own scripts."""
    shutil.copytree(PAGE, folder / "page", ignore=shutil.ignore_patterns("index.html", "__*"))
    text = Path(PAGE, "index.html").read_text(encoding="utf-8")
    before, _, after = text.partition("<!-- data:")
    (folder / "index.html").write_text(f"{before}{DATA}{after.partition('-->')[2]}", "utf-8")


@dataclass
class Copy:
    """What was asked of the server and is kept."""

    app: ASGIApp
    folder: Path
    answers: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # by the hash of their content

    def answer(self, address: str) -> Any:
        """An answer; `None` where the server refuses, because the model has no such thing."""
        if address not in self.answers:
            content = ask(self.app, address)
            if content is None:
                return None
            self.answers[address] = json.loads(content)
        return self.answers[address]

    def picture(self, address: str) -> None:
        """A picture; one file for all addresses that give the same."""
        content = None if address in self.pictures else ask(self.app, address)
        if content is None:
            return
        key = hashlib.sha256(content).hexdigest()
        if key not in self.files:
            ending = address.partition("?")[0].rpartition(".")[2]
            self.files[key] = f"pictures/{len(self.files) + 1:04}.{ending}"
            (self.folder / self.files[key]).write_bytes(content)
        self.pictures[address] = self.files[key]


def record(copy: Copy, *, quiet: bool) -> str:
    """Ask for all that a copy holds; a sentence about it."""
    lines = copy.answer("/api/runs")
    finished = [line for line in lines if line["state"] == "finished"]
    held = [line for line in finished[:MOST] if record_run(copy, line["name"], quiet=quiet)]
    if not held:
        raise DataError("none of these runs is finished and can be opened; train one first")
    copy.answers["/api/runs"] = held
    figures = wanted_of_study(copy, {line["name"] for line in held})
    draw(copy, figures, "figures", quiet=quiet)
    if len(finished) > MOST:
        say(f"the copy holds {MOST} of {len(finished)} runs; name those that it should hold")
    return f"It holds {len(held)} of {len(lines)} runs." if len(held) < len(lines) else ""


def record_run(copy: Copy, name: str, *, quiet: bool) -> bool:
    """Ask for all of one run; whether it can be opened."""
    base = f"/api/runs/{escaped(name)}"
    if not quiet:
        say(f"reading {name}")
    if copy.answer(base) is None:
        say(f"{name} cannot be opened and is left out")
        return False
    draw(copy, list(wanted(copy, base)), "pictures", quiet=quiet)
    return True


def draw(copy: Copy, addresses: Sequence[str], label: str, *, quiet: bool) -> None:
    """Keep pictures, with a bar."""
    with progress(len(addresses), label, quiet=quiet or not addresses) as show:
        for done, address in enumerate(addresses):
            copy.picture(address)
            show(done + 1, "")


def wanted_of_study(copy: Copy, held: set[str]) -> list[str]:
    """The addresses of figures, while the table of runs is kept with links to those held."""
    study = copy.answer("/api/study")
    if study is None:
        return []
    study["runs"] = [name if name in held else "" for name in study["runs"]]
    figures = copy.answer("/api/study/figures") or []
    return [f"/api/study/figures/{escaped(figure['name'])}.svg" for figure in figures]


def wanted(copy: Copy, base: str) -> Iterator[str]:
    """The addresses of a run's pictures, while its answers are kept."""
    facts = copy.answer(base)
    examples = copy.answer(f"{base}/examples?count={SHOWN}&seed=0") or []
    first = [example["index"] for example in examples]
    indices = list(first)
    for order in ("worst", "random"):
        rows = copy.answer(f"{base}/reconstructions?count={SHOWN}&order={order}&seed=0") or []
        yield from (f"{base}/reconstruction.png?index={row['index']}" for row in rows)
        indices += [row["index"] for row in rows]
    yield from wanted_of_codes(copy, base, facts, first[:STARTS])
    for start, end in combinations(first[:PAIRED], 2):
        yield f"{base}/between.png?start={start}&end={end}&steps=9"
    if facts["shared"]:
        yield from grids(base, facts)
    if facts["clusters"]:
        for cluster in copy.answer(f"{base}/clusters") or []:
            indices += cluster["members"]
            yield f"{base}/cluster.png?number={cluster['number']}&seed=0&count=8"
    yield from (f"{base}/image.png?index={index}" for index in indices)
    copy.answer(f"{base}/factors")
    yield f"{base}/sheet.png"


def wanted_of_codes(
    copy: Copy, base: str, facts: dict[str, Any], indices: Sequence[int]
) -> Iterator[str]:
    """Codes to start from with what they decode to; the space of all codes."""
    latents = [latent["number"] for latent in facts["latents"]]
    rows = ",".join(map(str, latents))
    starts = [f"index={index}" for index in indices] + [f"seed={seed}" for seed in range(DRAWS)]
    for which in starts:
        start = copy.answer(f"{base}/start?{which}")
        if start is not None:
            code = ",".join(map(short, start["code"]))
            yield f"{base}/decode.png?code={code}"
            yield f"{base}/traversals.png?code={code}&latents={rows}&steps={FRAMES}"
    if len(latents) > 1:
        copy.answer(f"{base}/space?by=latents&x={latents[0]}&y={latents[1]}")
    for by in ("pca", "tsne"):
        copy.answer(f"{base}/space?by={by}&x=0&y=1")


def grids(base: str, facts: dict[str, Any]) -> Iterator[str]:
    """Grids of what groups share and what is each example's own."""
    for cluster in range(min(CLUSTERS, max(1, facts["clusters"]))):
        for seed in range(SEEDS):
            yield f"{base}/groups.png?cluster={cluster}&seed={seed}&rows=6&columns=8"


def short(value: float) -> str:
    """A number of a code as the page writes it in an address: at most four decimals.

    JavaScript rounds a tie away from zero, which Python's own rounding does not.

    >>> short(0.5), short(-0.00001), short(0.03125), short(-2.0), short(10.0)
    ('0.5', '0', '0.0313', '-2', '10')
    """
    rounded = Decimal(value).quantize(Decimal("0.0001"), ROUND_HALF_UP)
    text = f"{rounded:f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def escaped(name: str) -> str:
    """A name in an address, as JavaScript's encodeURIComponent writes it."""
    return quote(name, safe="!~*'()")


def ask(app: ASGIApp, address: str) -> bytes | None:
    """What the server answers; `None` if it refuses."""
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
