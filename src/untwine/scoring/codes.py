"""The codes of a whole dataset as a table, and what else the model says of each example."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.data.opening import open_as
from untwine.distributions import Gaussian
from untwine.errors import IncompatibleError
from untwine.latents import code_layout
from untwine.records import Inference
from untwine.schema import MAX_REPEATS, require_count
from untwine.tools.compute import derive_seed, seeded
from untwine.tools.progress import progress
from untwine.vae import VAE

if TYPE_CHECKING:
    from pandas import Categorical, DataFrame

CHUNK = 64  # examples encoded at a time
DRAWS = 16  # samples from the posterior for a log-likelihood
MEASURED = re.compile(r"example|(z|sd)\d+|kl|log_likelihood|error")  # columns that are no factors
Columns = dict[str, NDArray[np.floating]]


def codes(
    model: VAE, data: Any, *, draws: int = DRAWS, seed: int = 0, quiet: bool = True
) -> DataFrame:
    """A table with a row per example, in the order of the data.

    Its columns: `example` (the name of its file, or its number), the code `z0`, `z1`, ..., the
    deviations of the posterior `sd0`, `sd1`, ... where it is Gaussian, `kl` and `log_likelihood` in
    nats, `error` (mean squared error of the reconstruction), and the level of each factor.
    Models whose examples share latents have no `kl` and no `log_likelihood`, and models whose
    samples have no density (`vsc`, `gm-vae`, `tgm-vae`) have no `log_likelihood`. Levels that have
    names are named; factors with names or without an order are categorical columns. A factor that
    is called like another column, such as `error`, becomes `factor error`.

    Args:
        model: a trained model.
        data: what to encode: a dataset or anything that `as_dataset` takes. A folder or file is
            read as the training data was, and tables are standardised by the model's numbers.
        draws: samples from the posterior for the log-likelihood; 0 leaves it out.
        seed: of these samples.
        quiet: hide the progress bar.

    >>> import untwine
    >>> data = untwine.from_arrays(np.zeros((3, 8, 8)))
    >>> table = codes(untwine.build("vae", data, latent=2, network="mlp"), data)
    >>> list(table.columns)
    ['example', 'z0', 'z1', 'sd0', 'sd1', 'kl', 'log_likelihood', 'error']
    """
    import pandas as pd

    require_count("draws", draws, 0, MAX_REPEATS)
    if isinstance(data, str | Path):
        data = open_as(model.card.data if model.card else "", str(data), model.sizes.shape)
    data = as_dataset(data, like=model.columns)
    layout = code_layout(model)
    measure = measure_of(bool(layout.shared), draws)
    parts: list[Columns] = []
    with progress(len(data), "encoding", quiet=quiet) as show:
        for start in range(0, len(data), CHUNK):
            stop = min(start + CHUNK, len(data))
            # Where a code depends on its batch, the last one reaches back to have the same size.
            first = max(0, stop - CHUNK) if layout.whole_batch else start
            index = np.arange(first, stop)
            with seeded(derive_seed(seed, start)):
                part = measure(model.given_data(data, index), data.take_repeatably(index))
            parts.append({name: values[start - first :] for name, values in part.items()})
            show(stop, "")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = data.example_names or range(len(data))
    return pd.DataFrame({"example": list(names), **columns, **dict(_factor_columns(data))})


def outliers(
    model: VAE, data: Any, *, draws: int = DRAWS, seed: int = 0, quiet: bool = True
) -> DataFrame:
    """The table of `codes`, the least likely example first.

    Examples are ordered by their log-likelihood, which finds what a model has not learned; the
    error of a reconstruction is large for any rich picture.
    """
    table = codes(model, data, draws=max(1, draws), seed=seed, quiet=quiet)
    if "log_likelihood" not in table:
        raise IncompatibleError(
            "this model gives single examples no log-likelihood, because they share latents or its "
            "samples have no density; use another model to find outliers"
        )
    return table.sort_values("log_likelihood", kind="stable").reset_index(drop=True)


def measure_of(shares: bool, draws: int) -> Callable[[VAE, Tensor], Columns]:
    """A function from a model and examples to the columns of their rows.

    `shares` says whether examples share latents, and so have no likelihoods of their own.
    """

    @torch.no_grad()
    def measure(model: VAE, x: Tensor) -> Columns:
        inferred = model.infer_means(x)
        w = model.map_latents(inferred.z)
        error = (model.decode(w) - model.as_batch(x).x).square().flatten(1).mean(1)
        columns = _numbered("z", w) | _numbered("sd", _deviations(inferred))
        if not shares:
            kl = torch.stack([latent.kl for latent in inferred.latents.values()]).sum(0)
            columns["kl"] = _numpy(kl)
            if draws and (likelihood := _log_likelihood(model, x, draws)) is not None:
                columns["log_likelihood"] = _numpy(likelihood)
        return columns | {"error": _numpy(error)}

    return measure


def _log_likelihood(model: VAE, x: Tensor, draws: int) -> Tensor | None:
    """(B,) log p(x), or None for a model whose samples have no density."""
    try:
        return model.log_weights(x, draws).logsumexp(1) - math.log(draws)
    except IncompatibleError:
        return None


def _deviations(inferred: Inference) -> Tensor | None:
    """(B, D) deviations of the posterior; None where it is not Gaussian."""
    parts = [latent for latent in inferred.latents.values() if latent.feeds_decoder]
    deviations = [
        latent.draw.q.variance.sqrt() if latent.rows is None else None
        for latent in parts
        if isinstance(latent.draw.q, Gaussian)
    ]
    if len(deviations) < len(parts) or any(value is None for value in deviations):
        return None
    return torch.cat([value for value in deviations if value is not None], -1)


def _numbered(prefix: str, values: Tensor | None) -> Columns:
    """(B, D) values as columns `prefix0`, `prefix1`, ..."""
    if values is None:
        return {}
    return {f"{prefix}{d}": column for d, column in enumerate(_numpy(values).T)}


def _numpy(values: Tensor) -> NDArray[np.floating]:
    return values.cpu().numpy()


def _factor_columns(data: Dataset) -> Iterator[tuple[str, NDArray[np.int64] | Categorical]]:
    """The name of each factor and the levels of all examples: their names, or else numbers."""
    import pandas as pd

    factors = data.factors
    if factors is None:
        return
    levels = factors.levels_at(np.arange(len(data)))
    for name, size, column in zip(factors.names, factors.sizes, levels.T, strict=True):
        title = f"factor {name}" if MEASURED.fullmatch(name) else name
        ordered, level_names = name not in factors.unordered, factors.level_names.get(name, ())
        if len({*level_names}) < size:  # there are none, or two levels share one
            level_names = range(size)
        if ordered and isinstance(level_names, range):
            yield title, column
        else:
            categories = list(level_names)
            yield title, pd.Categorical.from_codes(column, categories=categories, ordered=ordered)
