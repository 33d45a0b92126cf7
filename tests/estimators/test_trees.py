"""Boosted trees: the same model as scikit-learn's, whatever the threads, ties and bad rows."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numba
import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier

from untwine.errors import DataError
from untwine.estimators.trees import fit_boosted_trees


def problem(n=600, noise=0.3, latents=5, seed=0):
    """Codes (N, D) of factors with 2, 3 and 5 levels, the first three latents in use."""
    rng = np.random.default_rng(seed)
    levels = rng.integers((2, 3, 5), size=(n, 3))
    codes = rng.standard_normal((n, latents)).astype(np.float32)
    codes[:, :3] = levels + noise * codes[:, :3]
    return codes, levels


def reference(codes, levels, test_codes, stages):
    models = [
        GradientBoostingClassifier(n_estimators=stages, random_state=0).fit(codes, column)
        for column in levels.T
    ]
    importances = np.stack([model.feature_importances_ for model in models], axis=1)
    return importances, np.stack([model.predict(test_codes) for model in models], axis=1)


@pytest.mark.parametrize(("stages", "noise"), [(1, 0.5), (10, 0.5), (100, 0.3)])
def test_importances_and_predictions_are_those_of_scikit_learn(stages, noise):
    (codes, levels), (test_codes, _) = problem(noise=noise), problem(noise=noise, seed=1)
    fit = fit_boosted_trees(codes, levels, test_codes, stages=stages)
    importances, predicted = reference(codes, levels, test_codes, stages)
    assert np.abs(fit.importances - importances).max() < 0.01  # equal gains are broken by chance
    assert (fit.predicted == predicted).mean() > 0.98


def test_without_equal_gains_the_agreement_is_to_the_last_digits():
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((2000, 3))
    levels = (codes @ [1.0, 0.7, 0.4] > 0.3).astype(int)[:, None]
    fit = fit_boosted_trees(codes, levels, codes, stages=3)
    importances, predicted = reference(codes, levels, codes, 3)
    assert np.allclose(fit.importances, importances, rtol=0, atol=1e-12)
    assert (fit.predicted == predicted).all()


def test_overfitting_noise_is_reproduced():
    rng = np.random.default_rng(0)
    codes, levels = rng.standard_normal((400, 3)), rng.integers(4, size=(400, 1))
    fit = fit_boosted_trees(codes, levels, codes)
    assert (fit.fitted == fit.predicted).all()
    _, predicted = reference(codes, levels, codes, 100)
    ours, theirs = ((p == levels).mean() for p in (fit.predicted, predicted))
    assert ours == pytest.approx(theirs, abs=0.03)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    codes, levels = problem(3000)
    before, fits = torch.get_num_threads(), []
    for threads in (1, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        fits.append(fit_boosted_trees(codes, levels, codes, stages=5))
    assert all((a == b).all() for a, b in zip(*fits, strict=True))
    assert torch.get_num_threads() == before


def test_processes_and_threads_may_boost_at_the_same_time():
    codes, levels = problem(3000)
    expected = fit_boosted_trees(codes, levels, codes, stages=3).importances
    pools = (
        ThreadPoolExecutor(2),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")),
    )
    for pool in pools:
        with pool:
            jobs = [
                pool.submit(fit_boosted_trees, codes, levels, codes, stages=3) for _ in range(2)
            ]
            assert all((job.result().importances == expected).all() for job in jobs)


def test_the_order_of_latents_changes_nothing():
    codes, levels = problem()
    order = [3, 1, 4, 0, 2]
    fit, other = (fit_boosted_trees(z, levels, z, stages=20) for z in (codes, codes[:, order]))
    assert np.allclose(fit.importances[order], other.importances, rtol=0, atol=1e-12)
    assert (fit.fitted == other.fitted).all()


def test_copies_share_their_importance_by_chance():
    codes, levels = problem(latents=3)
    both = np.hstack([codes, codes])
    shares = [fit_boosted_trees(both, levels, both, seed=seed).importances[:3] for seed in range(3)]
    together = fit_boosted_trees(both, levels, both).importances
    single = fit_boosted_trees(codes, levels, codes).importances
    assert np.allclose(together[:3] + together[3:], single, atol=0.02)
    assert all(0.2 < share[k, k] / single[k, k] < 0.8 for share in shares for k in range(3))
    assert (shares[0] != shares[1]).any()


def test_the_seed_fixes_every_bit():
    codes, levels = problem()
    twice = np.hstack([codes, codes])
    first, second = (fit_boosted_trees(twice, levels, twice, stages=20, seed=3) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_values_closer_than_the_tolerance_are_never_told_apart():
    levels = np.arange(40)[:, None] % 2
    fit = fit_boosted_trees(5e-8 * levels.astype(float), levels, np.zeros((1, 1)))
    assert (fit.importances == 0).all()
    apart = fit_boosted_trees(5e-7 * levels.astype(float), levels, 5e-7 * levels)
    assert apart.importances == [[1.0]] and (apart.predicted == levels).all()


def test_constant_codes_are_worth_nothing_and_the_most_frequent_level_is_guessed():
    levels = np.repeat([2, 5, 9], [10, 30, 20])[:, None]
    fit = fit_boosted_trees(np.zeros((60, 2)), levels, np.ones((3, 2)))
    assert (fit.importances == 0).all() and (fit.predicted == 5).all()


def test_a_factor_with_one_level_needs_no_trees():
    codes, levels = problem(50)
    levels[:, 1] = 7
    fit = fit_boosted_trees(codes, levels, codes, stages=5)
    assert (fit.predicted[:, 1] == 7).all() and (fit.importances[:, 1] == 0).all()
    alone = fit_boosted_trees(codes, levels[:, 1:2], codes)
    assert (alone.predicted == 7).all()


def test_thresholds_lie_in_the_middle():
    codes, levels = np.array([[0.0], [1.0]]), np.array([[0], [1]])
    at = np.array([[0.5], [np.nextafter(np.float32(0.5), np.float32(1))]])
    assert fit_boosted_trees(codes, levels, at).predicted[:, 0].tolist() == [0, 1]


def test_codes_that_single_precision_cannot_hold_are_refused():
    with pytest.raises(DataError, match="scale them"):
        fit_boosted_trees(np.array([[0.0], [1e300]]), np.array([[0], [1]]), np.zeros((1, 1)))
