"""A VAE as a scikit-learn transformer, and metrics as scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from untwine.data.conversion import as_dataset
from untwine.data.dataset import Dataset
from untwine.errors import DataError, IncompatibleError
from untwine.records import ModelCard
from untwine.registry import likelihoods, metrics
from untwine.runs.cards import load_from_bytes
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute, metric_needs
from untwine.scoring.values import ScoreName
from untwine.spec import build
from untwine.state import History
from untwine.tools.weights import pack_weights
from untwine.train import fit
from untwine.vae import VAE

CHUNK = 256  # rows encoded or decoded at a time
SCORE_SEED = 0
N_SCORE_DRAWS = 16  # samples for the log-likelihood of a row
Floats = NDArray[np.float32]


class VAETransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Codes of a VAE, as scikit-learn's transformers give components.

    Args:
        model: one name or several, as in `untwine.build`.
        latent: number of latents.
        shape: `(C, H, W)` of rows that are flat images with values in [0, 1]; None for vectors.
        network, likelihood: as in `untwine.build`.
        settings: parameters of the model, the network and the likelihood, by their own names.
        steps: optimiser steps, unless `training` has `epochs`.
        batch: examples per step; all of them, if there are fewer.
        lr: learning rate.
        training: further options of `untwine.fit`: epochs, validation, patience, schedule, ...
        random_state: of weights, data order and noise.
        device: `cpu`, `cuda`, `mps`, or `auto` for the best available.
        verbose: show a progress bar.

    Fitting sets `model_`, a `VAE`, and `history_`.

    >>> codes = VAETransformer(latent=2, steps=20).fit_transform(np.random.rand(50, 8))
    >>> codes.shape
    (50, 2)
    """

    model_: VAE
    history_: History
    n_features_in_: int

    def __init__(
        self,
        model: str = "vae",
        *,
        latent: int = 10,
        shape: tuple[int, int, int] | None = None,
        network: str | None = None,
        likelihood: str | None = None,
        settings: Mapping[str, Any] | None = None,
        steps: int = 1000,
        batch: int = 64,
        lr: float = 1e-3,
        training: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.model, self.latent, self.shape = model, latent, shape
        self.network, self.likelihood, self.settings = network, likelihood, settings
        self.steps, self.batch, self.lr, self.training = steps, batch, lr, training
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: Any, y: object = None) -> Self:
        """Train the model on rows (N, D); `y` is ignored."""
        rows: Any = validate_data(self, X, dtype=[np.float32, np.float64], ensure_min_samples=2)
        data = self.as_dataset(rows)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.model_ = build(
            self.model,
            data,
            latent=self.latent,
            network=self.network,
            likelihood=self.likelihood,
            seed=seed,
            **(self.settings or {}),
        )
        options = dict(self.training or {})
        if "epochs" not in options:
            options["steps"] = self.steps
        self.history_ = fit(
            self.model_,
            data,
            batch=min(self.batch, len(data)),
            lr=self.lr,
            seed=seed,
            device=self.device,
            quiet=not self.verbose,
            **options,
        )
        self.model_.eval()
        return self

    def transform(self, X: Any) -> Floats:
        """(N, D') codes of rows: posterior means after the mapping."""
        return self._each(self._examples(X), self.model_.encode)

    def inverse_transform(self, X: Any) -> Floats:
        """(N, D) expected rows of codes (N, D')."""
        check_is_fitted(self)
        codes = check_array(X, dtype="float32")
        if codes.shape[1] != self._n_features_out:
            raise DataError(
                f"codes of this model have {self._n_features_out} columns, not {codes.shape[1]}"
            )
        rows = self._each(torch.from_numpy(codes), self.model_.decode)
        return rows.reshape(len(rows), -1)

    def score(self, X: Any, y: object = None) -> float:
        """The mean log-likelihood of rows in nats, estimated with 16 samples for each.

        Models whose samples have no density give the ELBO instead.
        """
        examples, model = self._examples(X), self.model_

        def estimate(x: Tensor) -> Tensor:
            return model.log_likelihood(x, samples=N_SCORE_DRAWS, seed=SCORE_SEED)

        def bound(x: Tensor) -> Tensor:
            return model.elbo(x, seed=SCORE_SEED).expand(len(x))

        try:
            values = self._each(examples, estimate)
        except IncompatibleError:
            values = self._each(examples, bound)
        return float(values.mean(dtype=np.float64))

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> Floats:
        """(n_samples, D) rows drawn from the model."""
        check_is_fitted(self)
        seed = int(check_random_state(random_state).randint(2**31))
        return self.model_.sample(n_samples, seed=seed).cpu().numpy().reshape(n_samples, -1)

    def as_dataset(self, rows: NDArray[Any], factors: Any = None) -> Dataset:
        """Rows as the model sees them."""
        bounded = bool(
            self.likelihood and likelihoods.parse(self.likelihood)[0].metadata.get("bounded")
        )
        return as_dataset(rows, factors, shape=self.shape, bounded=bounded)

    @property
    def _n_features_out(self) -> int:
        return self.model_.mapping.out_features

    def _examples(self, X: Any) -> Tensor:
        """Rows, checked, as a tensor that the model takes."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        values = torch.from_numpy(np.ascontiguousarray(rows, np.float32))
        return values.reshape(-1, *self.model_.sizes.shape)

    @staticmethod
    @torch.no_grad()
    def _each(rows: Tensor, function: Callable[[Tensor], Tensor]) -> Floats:
        """A function of rows, some at a time."""
        return torch.cat([function(chunk).cpu() for chunk in rows.split(CHUNK)]).numpy()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.transformer_tags is not None, "it is a transformer"
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What joblib writes: the model as its names and the bytes of its weights."""
        own: Any = super().__getstate__()
        state: dict[str, Any] = dict(own)
        if "model_" in state:
            model: VAE = state.pop("model_")
            assert model.card is not None, "it was made by `build`"
            state["stored_model"] = model.card.to_json(), pack_weights(model)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("stored_model", None)
        super().__setstate__(state)
        if stored:
            card, weights = stored
            self.model_ = load_from_bytes(ModelCard.from_json(card), weights, "the estimator")


def scorer(metric: str) -> Callable[..., float]:
    """A metric as a scorer for `GridSearchCV` and `cross_val_score`.

    The estimator is any transformer, or a pipeline that ends in one; `y` holds the levels of the
    factors, (N,) or (N, K) integers from 0. Metrics that need images, samples or the likelihood
    take a `VAETransformer`. scikit-learn maximises, so metrics for which lower is better are
    negated.

    Args:
        metric: a name such as `"mig"`, `"sap[svm]"` or `"dci.completeness"`.
    """
    name = ScoreName.read(metric)
    if name.compares_runs:
        raise IncompatibleError(f"{name} compares runs; a scorer sees one model at a time")
    sign = 1 if name.higher_is_better else -1
    needs = {*metric_needs(metrics[name.choice.name])} - {"unordered"}

    def score(estimator: Any, X: Any, y: Any = None) -> float:
        factors = None if y is None else _as_columns(np.asarray(y))
        if needs <= {"codes", "factors", "test_codes", "test_factors"}:
            subject = CodeArrays(np.asarray(estimator.transform(X)), factors)
        else:
            subject = _representation(estimator, X, factors, metric)
        return sign * name.pick(compute(subject, name.choice))

    return score


def _as_columns(levels: NDArray[Any]) -> NDArray[Any]:
    return levels[:, None] if levels.ndim == 1 else levels


def _representation(
    estimator: Any, X: Any, factors: NDArray[Any] | None, metric: str
) -> Representation:
    """A fitted transformer's model on all rows, for metrics that need more than codes."""
    if isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    if not isinstance(estimator, VAETransformer):
        raise IncompatibleError(
            f"{metric} needs a model, not only codes; score a VAETransformer, or a pipeline that "
            "ends in one"
        )
    data = estimator.as_dataset(np.asarray(X), factors)
    representation = Representation(
        estimator.model_, data, n_examples=len(data), device=estimator.device
    )
    representation.index = np.arange(len(data))
    return representation
