"""What a study's table says, and how sure one can be: pure functions of a table of runs.

A table has a row for each run, with the columns of `DESCRIPTION`; all other numbers are scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untwine.registry import metrics
from untwine.study.inference import holm, interval, p_value

Table = Any  # a pandas DataFrame or Series, whose own annotations know too little to be of help
DESCRIPTION = ("model", "setting", "value", "data", "seed", "run", "seconds")
N_RESAMPLES = 1_000  # times, for the chance that a setting is the best
NOT_SCORES = (
    "train",
    " at ",
    " of factor ",
    ".active",
    ".empty",
)  # parts of names of what is no score of its own
# The five scores that comparisons of disentangled models report, by their names here.
STANDARD_SCORES = ("beta-vae-score", "factor-vae-score", "mig", "sap[svm]", "dci.disentanglement")
ERRORS = ("reconstruction.squared_error", "reconstruction.cross_entropy", "reconstruction loss")
LOWER_IS_BETTER = (*ERRORS, "kl")  # is better, and no metric here says so


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """A table from its rows."""
    import pandas as pd

    return pd.DataFrame(rows)


def score_names(table: Table) -> list[str]:
    """The columns that are scores of more than one value."""
    names = [name for name in table.columns if name not in DESCRIPTION]
    return [n for n in names if table[n].dtype.kind == "f" and table[n].nunique(dropna=True) > 1]


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
    registered = name in metrics
    return (
        bool(metrics[name].metadata["higher_is_better"])
        if registered
        else score not in LOWER_IS_BETTER
    )


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


def compare_pairs(table: Table, score: str, *, of: str = "model") -> Table:
    """Every two models compared seed by seed, each by the mean of its settings and datasets.

    The difference with its interval and p value (`inference`); p is corrected by Holm for the
    number of comparisons.
    """
    means = table.groupby([of, "data", "seed"])[score].mean().unstack(of)
    rows: list[dict[str, Any]] = []
    for first, second in itertools.combinations(means.columns, 2):
        gap = mean_by_seed(means[first] - means[second])
        if len(gap) < 2:
            continue
        low, high = interval(gap)
        rows.append(
            {
                "first": first,
                "second": second,
                "difference": float(gap.mean()),
                "low": low,
                "high": high,
                "p": p_value(gap),
                "pairs": len(gap),
            }
        )
    comparisons = table_of(rows)
    if len(comparisons):
        comparisons["p"] = holm(comparisons["p"].to_numpy(float))
    return comparisons


def mean_by_seed(values: Table) -> NDArray[np.float64]:
    """One value for each seed: the mean over datasets of values by dataset and seed."""
    return values.dropna().groupby("seed").mean().to_numpy(float)


def recommendations(table: Table, scores: Sequence[str], *, seed: int = 0) -> Table:
    """For each dataset and score the setting with the best mean, and how likely it is the best.

    The likelihood is the share of bootstrap samples, of seeds within each setting, in which its
    mean is the best; NaN where a setting has one seed or all are equal. Settings that are equally
    good are all named.
    """

    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for data, group in table.groupby("data", sort=False):
        for score in scores:
            settings = {
                str(name): values.dropna().to_numpy(float)
                for name, values in group.groupby("setting", sort=False)[score]
            }
            settings = {name: values for name, values in settings.items() if len(values)}
            if not settings:
                continue
            sign = 1 if higher_is_better(score) else -1
            best, chance = _best({name: sign * v for name, v in settings.items()}, rng)
            summary = summarise(settings[best[0]])
            equal = len(best) == len(settings) > 1
            rows.append(
                {
                    "data": data,
                    "score": score,
                    "setting": "all are equal" if equal else " or ".join(best),
                    "mean": summary["mean"],
                    "low": summary["low"],
                    "high": summary["high"],
                    "runs": summary["runs"],
                    "chance": chance,
                }
            )
    return table_of(rows)


def _best(
    settings: dict[str, NDArray[np.float64]], rng: np.random.Generator
) -> tuple[list[str], float]:
    """The settings with the highest mean, and how often they have that in bootstrap samples."""
    exact = np.array([values.mean() for values in settings.values()])
    best = np.flatnonzero(np.isclose(exact, exact.max(), rtol=1e-9, atol=0))
    names = [list(settings)[i] for i in best]
    if min(map(len, settings.values())) < 2 or len(best) == len(settings) > 1:
        return names, float("nan")
    means = np.stack(
        [
            values[rng.integers(len(values), size=(N_RESAMPLES, len(values)))].mean(1)
            for values in settings.values()
        ]
    )
    return names, float((means[best].max(0) == means.max(0)).mean())


def slope(table: Table, score: str) -> float:
    """Spearman's correlation between the number that a model varies and a score.

    Within each dataset, then averaged; NaN where nothing varies, or more than one number.
    """
    if not by_one_number(table):
        return float("nan")
    numbers = table.assign(value=table["value"].map(number))
    return float(rank_correlation(numbers, ["value", score]).iloc[0, 1])


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
