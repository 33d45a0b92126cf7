"""What a study's table says, and how sure one can be: pure functions of a table of runs.

A table has a row for each run, with the columns of `DESCRIPTION` and the parameters of runs, which
begin with `set.`; all other numbers are scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import UnknownNameError
from untwine.registry import metrics
from untwine.schema import unknown_name
from untwine.study.inference import interval

Table = Any  # a pandas DataFrame or Series, whose own annotations know too little to be of help
PARAMETER = "set."  # begins the columns of parameters: `set.beta`
DESCRIPTION = ("model", "setting", "value", "data", "seed", "run", "seconds")
NOT_SCORES = (
    "train",
    " at ",
    " of factor ",
    ".active",
    ".empty",
    ".standard_error",
    ".bits_per_dimension",
    ".effective_draws",
)  # parts of names of what is no score of its own
# The five scores that comparisons of disentangled models report, by their names here.
STANDARD_SCORES = ("beta-vae-score", "factor-vae-score", "mig", "sap[svm]", "dci.disentanglement")
ERRORS = ("reconstruction.squared_error", "reconstruction.cross_entropy", "reconstruction loss")
LOWER_IS_BETTER = (*ERRORS, "kl")  # is better, and no metric here says so


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """A table from its rows."""
    import pandas as pd

    return pd.DataFrame(rows)


def score_columns(table: Table) -> list[str]:
    """The columns that are scores: numbers that neither describe a run nor are its parameters."""
    names = [n for n in table.columns if n not in DESCRIPTION and not n.startswith(PARAMETER)]
    return [n for n in names if table[n].dtype.kind == "f"]


def score_names(table: Table) -> list[str]:
    """The scores of more than one value."""
    return [n for n in score_columns(table) if table[n].nunique(dropna=True) > 1]


def check_scores(table: Table, names: Sequence[str]) -> list[str]:
    """Scores by their names, which the table must have."""
    known = score_columns(table)
    for name in filter(None, names):
        if name not in known:
            raise UnknownNameError(unknown_name("score of this study", name, known))
    return [name for name in names if name]


def standard_scores(table: Table) -> list[str]:
    """The five standard scores that a table has, then the others.

    Errors, UDR, counts, what is measured on training data and the points of curves are left out.
    """
    comparing = comparison_scores(table)
    available = [n for n in score_names(table) if n not in (*LOWER_IS_BETTER, *comparing)]
    others = [
        n
        for n in available
        if n not in STANDARD_SCORES and not any(word in n for word in NOT_SCORES)
    ]
    return [n for n in STANDARD_SCORES if n in available] + others


def reported_scores(table: Table) -> list[str]:
    """Every score that a report shows: the standard ones, UDR, and errors."""
    errors = [n for n in score_names(table) if n in ERRORS]
    return [*standard_scores(table), *comparison_scores(table), *errors]


def comparison_scores(table: Table) -> list[str]:
    """The scores of a table that compare runs with each other."""
    entries = {
        name: metrics[base] for name in score_names(table) if (base := _base(name)) in metrics
    }
    return [name for name, entry in entries.items() if entry.metadata.get("compares") == "runs"]


def _base(score: str) -> str:
    """The metric of a score: `dci` of `dci.completeness`."""
    return score.partition(".")[0].partition("[")[0]


def higher_is_better(score: str) -> bool:
    """Whether more of a score is better; of one that nothing is known about, yes."""
    name = _base(score)
    if name in metrics:
        return metrics[name].is_higher_better(score.partition(".")[2])
    return score not in LOWER_IS_BETTER


def unreliable_runs(table: Table, score: str) -> Table:
    """(runs,) whether the score of each run is marked as unreliable."""
    import pandas as pd

    metric, name = score.partition(".")[0], _base(score)
    marked = pd.Series(False, table.index)
    below = metrics[name].metadata.get("unreliable_below", {}) if name in metrics else {}
    for key, least in below.items():
        if (column := f"{metric}.{key}") in table and column != score:
            marked |= table[column] < least
    return marked


def summary(table: Table, by: Sequence[str], scores: Sequence[str]) -> Table:
    """A row for each group and score: mean with its confidence interval, median, spread, runs."""

    rows: list[dict[str, Any]] = []
    for key, group in table.groupby(list(by), sort=False):
        named = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        for score in scores:
            values = group[score].dropna().to_numpy(float)
            if len(values):
                rows.append({**named, "score": score, **summarise(values)})
    return table_of(rows)


def summarise(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, its confidence interval, median, standard deviation, extremes and number."""
    low, high = interval(values)
    return {
        "mean": float(values.mean()),
        "low": low,
        "high": high,
        "median": float(np.median(values)),
        "std": float(values.std()),
        "least": float(values.min()),
        "most": float(values.max()),
        "runs": len(values),
    }


def rank_correlation(table: Table, scores: Sequence[str]) -> Table:
    """Spearman's correlation between scores over runs, averaged over the datasets that tell it."""
    import pandas as pd

    names = list(scores)
    correlations = [group[names].corr(method="spearman") for _, group in table.groupby("data")]
    stacked: Table = pd.concat(correlations)
    return stacked.groupby(level=0).mean().loc[names, names]


def variance_shares(table: Table, score: str) -> dict[str, float]:
    """How much of a score's variance the model, its parameters and the seed explain.

    Within each dataset: the variance of the models' means, the variance of the settings' means
    around their model's, and what is left between the seeds of a setting; then averaged.
    """
    shares = [_shares(group, score) for _, group in table.dropna(subset=[score]).groupby("data")]
    defined = [share for share in shares if share]
    if not defined:
        return {}
    return {key: float(np.mean([share[key] for share in defined])) for key in defined[0]}


def _shares(group: Table, score: str) -> dict[str, float]:
    total = group[score].var(ddof=0)
    if not total > 0:
        return {}
    models = group.groupby("model")[score].transform("mean")
    settings = group.groupby("setting")[score].transform("mean")
    return {
        "model": float(models.var(ddof=0) / total),
        "parameter": float((settings - models).var(ddof=0) / total),
        "seed": float((group[score] - settings).var(ddof=0) / total),
    }


def mean_by_seed(values: Table) -> NDArray[np.float64]:
    """One value for each seed: the mean over datasets of values by dataset and seed."""
    return values.dropna().groupby("seed").mean().to_numpy(float)


def slope(table: Table, score: str) -> float:
    """Spearman's correlation between the number that a model varies and a score.

    Within each dataset, then averaged; NaN where nothing varies, or more than one number.
    """
    if not by_one_number(table):
        return float("nan")
    numbers = table.assign(value=table["value"].map(number))
    return float(rank_correlation(numbers, ["value", score]).iloc[0, 1])


def in_order(table: Table) -> Table:
    """The rows by model, as models come, and by rising value of its parameter."""
    models = list(dict.fromkeys(table["model"]))
    return table.iloc[np.lexsort((table["value"].map(number), table["model"].map(models.index)))]


def parameter_name(group: Table) -> str:
    """The name of the first number in which the settings of a model differ."""
    return str(group["setting"].iloc[0]).partition(" ")[2].partition("=")[0]


def by_one_number(table: Table) -> bool:
    """Whether the settings of a model differ in one number."""
    values = table.groupby("setting", sort=False)["value"].first().map(number)
    return bool(values.notna().all() and values.is_unique)


def number(value: object) -> float:
    """A value as a number; NaN if it is none."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def mean_by_dataset(table: Table, scores: Sequence[str]) -> Table:
    """(datasets, models) the mean of all values of several scores, missing ones left out."""
    long = table.melt(["data", "model"], list(scores), value_name="mean")
    return long.pivot_table(index="data", columns="model", values="mean", sort=False)
