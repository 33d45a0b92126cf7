"""The explorer in a cell of a notebook: a server of its own, and a frame that shows its page."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from untwine.errors import ParameterError, RunError

if TYPE_CHECKING:
    from untwine.data.dataset import Dataset
    from untwine.runs.directory import TrainedRun
    from untwine.vae import VAE

ORIGIN = "http://localhost:8888"  # where Jupyter is, unless told otherwise
ORIGIN_FORM = re.compile(r"https?://(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?")
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Explorer:
    """A running explorer; in a notebook it shows itself as a frame.

    The frame's address holds a token that opens the page once, within five minutes. A saved
    notebook therefore opens nothing; run the cell again.
    """

    def __init__(self, address: str, height: int, running: contextlib.ExitStack) -> None:
        self.address, self.height, self._running = address, height, running

    def close(self) -> None:
        """Stop the server."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Explorer at {urlsplit(self.address).netloc}>"

    def _repr_html_(self) -> str:
        from html import escape

        style = f"width:100%;height:{self.height}px;border:1px solid #8885;border-radius:6px"
        address = escape(self.address)
        return f'<iframe title="untwine explorer" src="{address}" style="{style}"></iframe>'


def open_explorer(
    model: VAE | TrainedRun,
    data: Dataset | None = None,
    *,
    origin: str = ORIGIN,
    height: int = 720,
) -> Explorer:
    """Explore a model in a cell of a notebook: sliders for its latents, its space and its factors.

    The server listens on this machine alone and lets no page but the notebook's frame it. It runs
    until `close` is called or the kernel ends.

    Args:
        model: a model made by `untwine.build`, or a finished run.
        data: the data to show; a run has its own.
        origin: scheme, host and port of the notebook, as the browser's address bar shows it.
        height: of the frame in pixels.
    """
    import secrets
    import tempfile

    from untwine.explore.serving import require_packages

    require_packages()
    from untwine.explore.gallery import Gallery
    from untwine.explore.server import LOCAL_HOSTS, application
    from untwine.explore.serving import serve_in_thread
    from untwine.runs.directory import TrainedRun

    host, once = _local_host(origin), secrets.token_urlsafe()
    if data is None and not isinstance(model, TrainedRun):
        raise ParameterError("name the data too: untwine.open_explorer(model, data)")
    with contextlib.ExitStack() as stack:
        if isinstance(model, TrainedRun):
            path, shown = model.path, model.data if data is None else data
        else:
            assert data is not None
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="untwine-"))
            path, shown = _write_run(model, data, Path(folder)), data
        app = application(
            Gallery([path], data=shown),
            token=secrets.token_urlsafe(),
            hosts=LOCAL_HOSTS,
            one_time_tokens=[once],
            framed_by=origin,
        )
        port = urlsplit(stack.enter_context(serve_in_thread(app))).port
        return Explorer(f"http://{host}:{port}/?token={once}", height, stack.pop_all())


def _local_host(origin: str) -> str:
    """The host of a notebook on this machine: frame and notebook must share it, for the cookie."""
    match = ORIGIN_FORM.fullmatch(origin)
    if not match:
        raise ParameterError(
            f"origin must be a scheme, a host and a port, such as {ORIGIN!r}, not {origin!r}"
        )
    host = match["host"].lower()
    if host not in LOCAL_NAMES:
        raise ParameterError(
            f"the notebook is at {host}, but the explorer can be reached from this machine alone; "
            "save the model or train a run, and use untwine explore RUN --host ADDRESS"
        )
    return host


def _write_run(model: VAE, data: Dataset, folder: Path) -> Path:
    """Write a model that was trained in Python as a finished run, which the explorer opens."""
    from untwine.registry import Choice, datasets
    from untwine.runs.training import finish_run, versions
    from untwine.spec import Run
    from untwine.tools.sealed import write_json

    card = model.card
    if card is None:
        raise RunError("only a model made by untwine.build can be explored; this one has no names")
    choice = Choice("array", {"path": data.name or "arrays"})
    if card.data:
        entry, params = datasets.parse(card.data)
        choice = Choice(entry.name, params)
    spec = Run(card.model, choice, card.network, card.likelihood, latent=card.latent)
    path = folder / spec.directory
    path.mkdir()
    how = {"device": "cpu", "threads": 1, "compile": "no"}
    record = {"spec": spec.to_json(), "card": card.to_json(), "how": how, "versions": versions()}
    write_json(path / "run.json", record)
    finish_run(path, spec, model, [{"step": spec.steps, "loss": _loss(model, data)}], 0.0)
    return path


def _loss(model: VAE, data: Dataset) -> float:
    """The mean loss of a few examples, as a history of one row."""
    import numpy as np
    import torch

    from untwine.latents import sample_examples
    from untwine.tools.compute import eval_mode, seeded

    examples = data.take_repeatably(np.sort(sample_examples(data, 64)))
    with torch.no_grad(), seeded(0), eval_mode(model):
        return float(model(examples.to(next(model.parameters()).device))["loss"].mean())
