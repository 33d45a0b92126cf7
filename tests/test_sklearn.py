"""scikit-learn's own checks, and what its users do with a transformer."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import untwine
from untwine.errors import DataError, IncompatibleError
from untwine.sklearn import VAETransformer, scorer

CHECKED = ("vae", "beta-tcvae", "factor-vae", "gm-vae")
MODELS = (*CHECKED, "mog-prior", "sylvester")


def small(model="vae", **options):
    settings = {"mlp.width": 16}
    if model == "factor-vae":
        settings["factor-vae.width"] = 16
    return VAETransformer(
        model, **{"latent": 2, "steps": 5, "settings": settings, "device": "cpu", **options}
    )


@parametrize_with_checks([small(model) for model in CHECKED])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    return (images / 16)[:300], labels[:300]


def test_pipelines_and_searches(digits):
    pipe = make_pipeline(StandardScaler(), small(latent=3), LogisticRegression(max_iter=500))
    assert len(cross_val_score(pipe, *digits, cv=2)) == 2
    grid = {"vaetransformer__latent": [2, 5], "vaetransformer__model": ["vae", "beta-vae"]}
    search = GridSearchCV(pipe, grid, cv=2).fit(*digits)
    latent = search.best_params_["vaetransformer__latent"]
    assert search.best_estimator_[:-1].transform(digits[0][:4]).shape == (4, latent)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_come_out_with_names(digits, kind):
    frame = small().set_output(transform=kind).fit_transform(digits[0])
    assert type(frame).__module__.startswith(kind)
    assert list(frame.columns) == ["vaetransformer0", "vaetransformer1"]


def test_mixed_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    columns = make_column_transformer((StandardScaler(), ["a"]), (OneHotEncoder(), ["b"]))
    assert make_pipeline(columns, small()).fit_transform(table).shape == (60, 2)


def test_codes_of_some_columns_beside_others():
    rng = np.random.default_rng(0)
    numbers = {"a": rng.normal(size=60), "b": rng.normal(size=60)}
    table = pd.DataFrame({**numbers, "c": rng.choice(["x", "y"], 60)})
    words = OneHotEncoder(sparse_output=False)
    columns = make_column_transformer((small(), ["a", "b"]), (words, ["c"]))
    frame = columns.set_output(transform="pandas").fit_transform(table)
    assert list(frame.columns) == [
        *("vaetransformer__vaetransformer0", "vaetransformer__vaetransformer1"),
        *("onehotencoder__c_x", "onehotencoder__c_y"),
    ]


def test_flat_images_take_convolutions_and_come_back_flat(digits):
    images = digits[0]
    transformer = small("jigsaw", shape=(1, 8, 8), network="mlp").fit(images)
    assert transformer.model_.sizes.shape == (1, 8, 8)
    codes = transformer.transform(images)
    back = transformer.inverse_transform(codes)
    assert back.shape == images.shape and 0 <= back.min() <= back.max() <= 1
    assert transformer.sample(3, random_state=0).shape == (3, 64)
    with pytest.raises(DataError, match="2 columns, not 5"):
        transformer.inverse_transform(np.zeros((2, 5)))


def test_the_score_is_the_likelihood_and_training_raises_it(digits):
    images = digits[0]
    short, long = small(steps=1).fit(images), small(steps=300).fit(images)
    assert long.score(images) > short.score(images)
    assert long.score(images) == long.score(images)
    assert scorer("elbo")(long, images) <= long.score(images) + 1


@pytest.mark.parametrize("model", MODELS)
def test_joblib_keeps_names_and_bytes(model, digits):
    images = digits[0][:80]
    fitted = small(model).fit(images)
    stream = io.BytesIO()
    joblib.dump(fitted, stream)
    assert b"torch" not in stream.getvalue()
    again = joblib.load(io.BytesIO(stream.getvalue()))
    assert np.array_equal(again.transform(images), fitted.transform(images))
    assert again.history_ == fitted.history_ and again.get_params() == fitted.get_params()
    assert again.model_.card == fitted.model_.card
    assert not hasattr(clone(fitted), "model_")


def test_scorers_are_the_metrics(digits):
    images, labels = digits
    fitted = small(latent=3, steps=100).fit(images)
    codes = fitted.transform(images)
    assert scorer("mig")(fitted, images, labels) == untwine.metrics.mig(codes, labels[:, None])
    assert scorer("total-correlation")(fitted, images) == -untwine.metrics.total_correlation(codes)
    error = ((images - fitted.inverse_transform(codes)) ** 2).mean()
    pipe = make_pipeline(FunctionTransformer(), fitted)
    for name in ("reconstruction", "reconstruction.squared_error"):
        assert scorer(name)(pipe, images) == pytest.approx(-error, rel=1e-4)


def test_a_search_by_mig_picks_the_latents_that_are_the_factors():
    levels = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3).repeat(4, 0)
    mixed = np.array([[1, 1, 1], [1, -1, 1], [1, 1, -1]]) / np.sqrt(3)

    def rotate(rows, by):
        return rows @ np.linalg.matrix_power(mixed, by)

    turn = FunctionTransformer(rotate, kw_args={"by": 1})
    grid = {"kw_args": [{"by": 1}, {"by": 0}, {"by": 2}]}
    search = GridSearchCV(turn, grid, scoring=scorer("mig"), cv=2).fit(levels, levels)
    assert search.best_params_ == {"kw_args": {"by": 0}}


def test_metrics_that_cannot_score_are_refused(digits):
    images, labels = digits
    with pytest.raises(IncompatibleError, match="compares runs"):
        scorer("udr")
    with pytest.raises(IncompatibleError, match="VAETransformer"):
        scorer("elbo")(StandardScaler().fit(images), images, labels)
    with pytest.raises(untwine.UnknownNameError, match="did you mean"):
        scorer("reconstruction.squared_eror")(small().fit(images), images, labels)
