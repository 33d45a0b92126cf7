"""Explicitness: how well a simple classifier reads the factors from all latents together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from untwine.errors import DataError
from untwine.estimators.arrays import Levels, split
from untwine.registry import metric
from untwine.schema import Natural

if TYPE_CHECKING:
    from untwine.estimators.linear import Floats, LogisticModel


@metric(
    title="Explicitness",
    paper="Ridgeway and Mozer, 2018",
    url="https://arxiv.org/abs/1802.05312",
    higher_is_better=True,
    question="held",
    range=(0.0, 1.0),
    unchanged_by=("permutation", "sign", "scale", "shift", "dead"),
    variants={"2019": {"solver": "2019"}},
)
def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    *,
    solver: Literal["multinomial", "2019"] = "multinomial",
    seed: Natural = 0,
) -> dict[str, float]:
    """How well logistic regression ranks the levels of each factor (Ridgeway and Mozer, 2018).

    explicitness = 1/K Σ_k 1/n_k Σ_c AUC(p(v_k = c | z))

    One model for each factor learns from all standardised codes (N, D) together; the area under the
    ROC curve of each level of (N, K) against the rest is taken on the test rows, by default a third
    chosen by the seed, and under "train" on the training rows. The loss is Σ ln 1/p +
    |w|² / 2. Constant latents and factors with a single level are left out, and so are levels that
    are missing from the test rows.

    The model is multinomial with free biases. `explicitness[2019]` follows the 2019 study: one
    model for each level with a penalised bias, whose probabilities are divided by their sum.

    Blind spots: chance is 0.5 and not 0. It does not see disentanglement at all: a rotation of the
    latents changes nothing. Levels in the middle of an ordered factor have a curve only through the
    division by the sum. Only what is linear in the codes counts.

    Args:
        solver: one model for all levels, or one for each as in the 2019 study.
        seed: chooses the rows held out where no test rows are given.

    >>> explicitness(np.arange(60.0)[:, None], np.arange(60) // 30)
    {'explicitness': 1.0, 'train': 1.0}
    """
    from untwine.estimators.linear import fit_each_logistic, logistic_inputs

    rows = split(codes, factors, test_codes, test_factors, seed)
    x, test_x = logistic_inputs(rows)
    models = fit_each_logistic(x, rows.factors, solver)
    tested = _area(models, test_x, rows.test_factors)
    return {"explicitness": tested, "train": _area(models, x, rows.factors)}


def _area(models: list[LogisticModel], x: Floats, factors: Levels) -> float:
    """Mean area over the factors that have two levels in these rows."""
    from untwine.estimators.linear import auc_ranking

    areas = [
        auc_ranking(model.log_probabilities(x), y, model.levels)
        for model, y in zip(models, factors.T, strict=True)
    ]
    defined = np.array(areas)[np.isfinite(areas)]
    if not len(defined):
        raise DataError("no factor has two levels present in both training and test rows")
    return float(defined.mean())
