"""Scores of a model on data: what metrics may ask for, computed once and shared by all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from untwine.data import Dataset
from untwine.errors import DataError, ParameterError, UntwineError
from untwine.guards import locked
from untwine.metrics._arrays import check
from untwine.parts.gaussian import Gaussian
from untwine.progress import progress
from untwine.records import Batch
from untwine.registry import Choice, Entry, metrics
from untwine.runs import open_run, read_scores, warn
from untwine.schema import Value
from untwine.spec import Settings
from untwine.store import write_json
from untwine.train import pick_device
from untwine.vae import VAE, evaluation

CHUNK = 512  # examples encoded at a time; a run is scored in batches as it was trained
MOST_PIXELS = 2**26  # of images kept in memory for one metric


@dataclass(frozen=True)
class Score:
    """The values of one metric, beside those of reference codes on the same factors."""

    values: dict[str, float]
    references: dict[str, dict[str, float]] = field(default_factory=dict)


class Representation:
    """A model on a sample of its data. Everything is computed on first use and kept."""

    def __init__(
        self,
        model: VAE,
        data: Dataset,
        *,
        n: int = 10_000,
        seed: int = 0,
        device: str = "auto",
        quiet: bool = True,
        chunk: int = CHUNK,
    ) -> None:
        if n < 2:
            raise ParameterError(f"an evaluation needs at least 2 examples, not {n}")
        self.device = pick_device(device)
        self.model = model.to(self.device)
        self.data = data.to(self.device)
        self.quiet, self.chunk = quiet, chunk
        self.index = data.draw(n, np.random.default_rng(seed))

    @functools.cached_property
    def codes(self) -> NDArray[np.floating]:
        """(N, D') the representation of every example."""
        return self._each(self.index, "encoding", self.model.encode)

    @functools.cached_property
    def factors(self) -> NDArray[np.int64]:
        """(N, K) the levels of every example's factors."""
        if self.data.factors is None:
            raise DataError("this data has no factors to score against")
        return self.data.factors.of(self.index)

    @functools.cached_property
    def images(self) -> NDArray[np.floating]:
        """(M, *shape) the first examples, as many as fit in memory."""
        return self._each(self._some, "drawing", lambda x: x)

    @functools.cached_property
    def reconstructions(self) -> NDArray[np.floating]:
        """(M, *shape) what the model makes of `images`."""
        return self._each(self._some, "decoding", self.model.reconstruct)

    @functools.cached_property
    def kl(self) -> NDArray[np.floating]:
        """(D,) how much each latent says, in nats: its mean KL to the prior.

        Where a latent has no such closed form (a flow, a mixture prior, shared latents), the
        variance of its posterior mean stands in.
        """
        return self._each(self._some, "measuring", self._kl_per_latent).mean(0)

    @property
    def _some(self) -> NDArray[np.int64]:
        return self.index[: max(2, MOST_PIXELS // self.data.shape.numel())]

    def _kl_per_latent(self, x: torch.Tensor) -> torch.Tensor:
        with evaluation(self.model):
            _, latents, z = self.model.infer(Batch(x), mean=True)
        only = next(iter(latents.values()))
        q, p = only.draw.q, only.p
        if len(latents) == 1 and isinstance(q, Gaussian) and isinstance(p, Gaussian):
            return q.kl_per_dim(p)
        return (z - z.mean(0)).square()

    @torch.no_grad()
    def _each(
        self,
        index: NDArray[np.int64],
        label: str,
        function: Callable[[torch.Tensor], torch.Tensor],
    ) -> NDArray[np.floating]:
        parts: list[NDArray[np.floating]] = []
        with progress(len(index), label, quiet=self.quiet) as show:
            for start in range(0, len(index), self.chunk):
                stop = min(start + self.chunk, len(index))
                first = max(0, stop - self.chunk)  # chunks of one size: some codes depend on it
                given = torch.from_numpy(index[first:stop]).to(self.device)
                parts.append(function(self.data.take(given)).cpu().numpy()[start - first :])
                show(stop, "")
        return np.concatenate(parts)


def needs(entry: Entry) -> list[str]:
    """What a metric asks for: the names of its positional arguments."""
    return [
        p.name
        for p in inspect.signature(entry.function).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


def applicable(data: Dataset) -> list[str]:
    """The metrics that can be computed on this data."""
    return [
        name
        for name in metrics
        if data.factors is not None or "factors" not in needs(metrics[name])
    ]


def reference_codes(factors: NDArray[np.int64], seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Codes to compare with: the factors themselves, a rotation of them, and noise."""
    rng = np.random.default_rng(seed)
    _, f = check(factors, factors)
    spread = f.std(0)
    standard = (f - f.mean(0)) / np.where(spread > 0, spread, 1)
    rotation, _ = np.linalg.qr(rng.standard_normal((f.shape[1], f.shape[1])))
    return {
        "perfect": standard,
        "rotated": standard @ rotation,
        "random": rng.standard_normal(f.shape),
    }


def score(representation: Representation, choice: Choice) -> Score:
    """One metric of one representation."""
    entry = metrics[choice.name]
    asked = needs(entry)
    compute = functools.partial(entry.function, **choice.params)
    values = _named(entry, compute(*(getattr(representation, name) for name in asked)))
    if asked != ["codes", "factors"]:
        return Score(values)
    factors = representation.factors
    references = {
        kind: _named(entry, compute(codes, factors))
        for kind, codes in reference_codes(factors).items()
    }
    return Score(values, references)


def _named(entry: Entry, result: float | dict[str, float]) -> dict[str, float]:
    return result if isinstance(result, dict) else {entry.name: result}


def choose(names: Iterable[str] | str | None, data: Dataset, settings: Settings) -> list[Choice]:
    """The metrics of these names with their settings; all that the data allows by default."""
    wanted = [names] if isinstance(names, str) else names or applicable(data)
    entries = [metrics[name] for name in wanted]
    settings.check(entries)
    return [metrics.choose(entry.name, **settings.of(entry)) for entry in entries]


def each_score(
    representation: Representation, choices: Iterable[Choice], *, strict: bool
) -> Iterator[tuple[Choice, Score]]:
    """One score after another; unless strict, one that is refused is told and left out."""
    for choice in choices:
        try:
            yield choice, score(representation, choice)
        except UntwineError as error:
            if strict:
                raise
            warn(f"{choice.name} is left out: {error}")


def evaluate(
    model: VAE,
    data: Dataset,
    names: Iterable[str] | str | None = None,
    *,
    n: int = 10_000,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    **settings: Value,
) -> dict[str, Score]:
    """Scores of a model by metric, on n random examples.

    Args:
        model: to be scored, on the posterior mean through the mapping.
        data: with factors, for metrics that need them.
        names: of the metrics; all that the data allows by default.
        n: number of examples.
        seed: of their choice.
        device: where to encode.
        quiet: no progress bars.
        settings: parameters of the metrics, by their own names.

    >>> import untwine
    >>> data = untwine.dataset("sprites", size=16)
    >>> model = untwine.build("vae", data)
    >>> scores = untwine.evaluate(model, data, n=100, bins=10)
    >>> sorted(scores), sorted(scores["mig"].references)
    (['mig', 'reconstruction'], ['perfect', 'random', 'rotated'])
    """
    chosen = choose(names, data, Settings(settings))
    representation = Representation(model, data, n=n, seed=seed, device=device, quiet=quiet)
    found = each_score(representation, chosen, strict=names is not None)
    return {choice.name: value for choice, value in found}


def evaluate_run(
    path: Path,
    names: Iterable[str] | str | None = None,
    *,
    n: int = 10_000,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = True,
    settings: Iterable[str] = (),
) -> dict[str, Score]:
    """Scores of a finished run, kept in its `scores.json`; only what is not there is computed."""
    finished = open_run(path)
    chosen = choose(names, finished.data, Settings.read(settings))
    how = {c.name: {"params": dict(c.params), "examples": n, "seed": seed} for c in chosen}
    with locked(path):
        kept = read_scores(path)
        missing = [c for c in chosen if not _same(kept, c.name, how[c.name])]
        representation = Representation(
            finished.model,
            finished.data,
            n=n,
            seed=seed,
            device=device,
            quiet=quiet,
            chunk=finished.spec.batch,
        )
        for choice, found in each_score(representation, missing, strict=names is not None):
            kept[choice.name] = {**how[choice.name], **asdict(found)}
            write_json(path / "scores.json", kept)
    return {
        choice.name: Score(kept[choice.name]["values"], kept[choice.name]["references"])
        for choice in chosen
        if _same(kept, choice.name, how[choice.name])
    }


def _same(kept: dict[str, dict[str, Any]], name: str, how: dict[str, Any]) -> bool:
    """Whether a metric is kept with these settings."""
    return name in kept and all(kept[name][key] == value for key, value in how.items())
