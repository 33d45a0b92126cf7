"""The answers and pictures of a static copy, recorded from the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from untwine.errors import DataError
from untwine.explore.constants import (
    CLUSTER_IMAGES,
    COPY_DOTS,
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
from untwine.explore.measuring import MEASURES
from untwine.runs.describe import strip_folders
from untwine.tools.files import sha256
from untwine.tools.progress import progress
from untwine.tools.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from untwine.explore.gallery import Gallery
    from untwine.explore.view import RunView

MAX_RUNS = 12
MAX_COPY_NUMBERS = 60_000  # in the rows of a table's dots
MAX_GROUP_CLUSTERS = 10  # clusters with grids of groups


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


def record_runs(copy: Copy, gallery: Gallery, *, quiet: bool) -> str:
    """Record everything a copy holds and return a sentence about it."""
    lines = copy.answer("/api/runs")
    finished = [line for line in lines if line["phase"] == "finished"]
    recorded = [
        line for line in finished[:MAX_RUNS] if record_run(copy, gallery, line["name"], quiet=quiet)
    ]
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


def record_run(copy: Copy, gallery: Gallery, name: str, *, quiet: bool) -> bool:
    """Record one run and return whether it can be opened."""
    base = f"/api/runs/{encode_name(name)}"
    if not quiet:
        say(f"reading {name}")
    if copy.answer(base) is None:
        say(f"{name} cannot be opened and is left out")
        return False
    view = gallery.view(name)
    measure_examples(view, quiet=quiet)
    record_pictures(copy, list(picture_addresses(copy, base)), "pictures", quiet=quiet)
    for address in {base, f"{base}/factors"} & copy.answers.keys():
        copy.answers[address] = hide_folders(copy.answers[address], view.trained.spec.data.params)
    return True


def hide_folders(answer: Any, params: Mapping[str, Any]) -> Any:
    """An answer in which files of the data have no folders: a copy is made to be shared.

    >>> hide_folders({"command": "untwine train vae /home/me/a.npy"}, {"path": "/home/me/a.npy"})
    {'command': 'untwine train vae a.npy'}
    """
    text = json.dumps(answer)
    for value in params.values():
        if isinstance(value, str):
            inside, shared = (json.dumps(each)[1:-1] for each in (value, strip_folders(value)))
            text = text.replace(inside, shared) if inside != shared else text
    return json.loads(text)


def measure_examples(view: RunView, *, quiet: bool) -> None:
    """Measure the examples of a run, so that a copy has them in order."""
    if not view.has_examples:
        return
    measures = view.measures
    measures.start()
    with progress(measures.target, "examples", quiet=quiet or not measures.is_running) as show:
        while measures.is_running:
            measures.wait(1.0)
            show(measures.done, "")


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
    for order in ("unlikely", "worst", "far", "random"):
        query = f"count={N_EXAMPLES}&order={order}&seed=0&start=0"
        answer = copy.answer(f"{base}/reconstructions?{query}") or {"examples": []}
        rows = [row["index"] for row in answer["examples"]]
        if summary["tile"]:
            yield from (f"{base}/reconstruction.png?index={index}" for index in rows)
        indices += rows
    yield from code_addresses(copy, base, summary, first[:COPY_STARTS])
    for start, end in combinations(first[:COPY_PATH_EXAMPLES], 2):
        path = f"start={start}&end={end}&steps={PATH_STEPS}"
        yield from decoded_address(copy, summary, f"{base}/between", path)
    if summary["shared"]:
        yield from group_addresses(base, summary)
    if summary["clusters"]:
        for cluster in copy.answer(f"{base}/clusters") or []:
            indices += cluster["members"]
            yield f"{base}/cluster.png?number={cluster['number']}&seed=0&count={CLUSTER_IMAGES}"
    if summary["tile"]:
        yield from (f"{base}/image.png?index={index}" for index in indices)
    copy.answer(f"{base}/factors")
    copy.answer(f"{base}/curves")
    yield from space_addresses(copy, base, summary)


def code_addresses(
    copy: Copy, base: str, summary: dict[str, Any], indices: Sequence[int]
) -> Iterator[str]:
    """Record codes to start from; the addresses of decoded pictures."""
    latents = [latent["number"] for latent in summary["latents"]]
    rows = ",".join(map(str, latents))
    starts = [f"index={index}" for index in indices]
    starts += [f"seed={seed}" for seed in range(COPY_DRAWS)]
    for query in starts:
        start = copy.answer(f"{base}/start?{query}")
        if start is not None:
            code = ",".join(map(format_number, start["code"]))
            yield from decoded_address(copy, summary, f"{base}/decode", f"code={code}")
            film = f"code={code}&latents={rows}&steps={COPY_FRAMES}"
            yield from decoded_address(copy, summary, f"{base}/traversals", film)


def decoded_address(copy: Copy, summary: dict[str, Any], place: str, query: str) -> Iterator[str]:
    """Record decoded rows of a table; the address of a decoded picture otherwise."""
    if summary["tile"]:
        yield f"{place}.png?{query}"
    else:
        copy.answer(f"{place}.json?{query}")


def space_addresses(copy: Copy, base: str, summary: dict[str, Any]) -> Iterator[str]:
    """Record the space of codes, its colours and the rows of its dots; the address of its sheet."""
    latents = [latent["number"] for latent in summary["latents"]]
    space = copy.answer(f"{base}/space?by=pca&x=0&y=1&dots={COPY_DOTS}")
    copy.answer(f"{base}/space?by=tsne&x=0&y=1&dots={COPY_DOTS}")
    if len(latents) > 1:
        copy.answer(f"{base}/space?by=latents&x={latents[0]}&y={latents[1]}&dots={COPY_DOTS}")
    for measure in MEASURES:
        copy.answer(f"{base}/colour?by={measure}&number=0&dots={COPY_DOTS}")
    for latent in summary["latents"]:
        if latent["active"]:
            copy.answer(f"{base}/colour?by=latent&number={latent['number']}&dots={COPY_DOTS}")
    if space and summary["columns"]:
        for index in space["index"][: MAX_COPY_NUMBERS // len(summary["columns"])]:
            copy.answer(f"{base}/row.json?index={index}")
    if space and summary["tile"]:
        yield f"{base}/sheet.png?dots={len(space['index'])}"


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
