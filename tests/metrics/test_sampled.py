"""Scores of batches with a fixed factor: BetaVAE, Z-diff, FactorVAE."""

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untwine.errors import DataError, ParameterError
from untwine.estimators.sampling import FreshSampler, RowSampler, pair_differences
from untwine.metrics import beta_vae_score, factor_vae_score, z_diff

SCORES = {"beta_vae_score": beta_vae_score, "z_diff": z_diff, "factor_vae_score": factor_vae_score}
FEW = {
    "beta_vae_score": {"train": 600, "test": 600},
    "z_diff": {"train": 600, "test": 600},
    "factor_vae_score": {"votes": 600, "test_votes": 600},
}
every_score = pytest.mark.parametrize("name", SCORES)

STORED = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]
HARD = ["dsprites__hard", "k3b__hard"]
NOT_SATURATED = ["dsprites__rotated", "dsprites__noise", "k3b__noise", *HARD]
OTHERS = {
    "beta_vae_liblinear_ovr": ("beta_vae_score", {"solver": "2019"}),
    "zdiff_linsvc_ovr_C0.01_hinge": ("z_diff", {}),
    "zdiff_linsvc_ovr_C0.01_squared_hinge": ("z_diff", {"loss": "squared-hinge"}),
}


def grid(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


def few(name, codes, factors, **more):
    return SCORES[name](codes, factors, **FEW[name], **more)


def headline(scores):
    return next(iter(scores.values()))


@pytest.fixture(scope="session")
def cases(shared):
    spec = importlib.util.spec_from_file_location("cases", shared("golden/cases.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def drawn(cases):
    """An encoder of a case, whose noise is fresh at every call, and the sizes of its factors."""

    def make(name):
        problem, case = name.split("__")
        rng = np.random.default_rng(0)
        encode = lambda levels: cases.encode(case, problem, levels, rng)  # noqa: E731
        return encode, cases.PROBLEMS[problem]["sizes"]

    return make


@pytest.fixture
def stored(cases, rows):
    """The stored rows of a case; made here for those that have none."""

    def find(name):
        if name not in HARD:
            return rows(name)["z_train"], rows(name)["f_train"]
        problem, case = name.split("__")
        rng = np.random.RandomState(1)
        factors = cases.sample_factors(problem, 10_000, rng)
        return cases.encode(case, problem, factors, rng), factors

    return find


@pytest.fixture
def check(golden):
    """Compare a score with the mean of the reference's five seeds; less effort where that is 1."""

    def compare(name, kind, score, *args, **params):
        found = {**golden["cases"], **golden["cases_sampling_only"]}[name]
        expected = found.get("sampling", found)["modern"][kind]["eval_accuracy"]
        if expected["mean"] == 1:
            params = {**params, **(FEW[score] if score != "z_diff" else {"test": 600})}
        value = headline(SCORES[score](*args, **params))
        assert value == pytest.approx(expected["mean"], abs=max(3 * expected["std"], 0.01))

    return compare


@pytest.mark.parametrize("name", STORED + HARD)
def test_fresh_draws_agree_with_the_reference(name, drawn, check):
    check(name, "beta_vae", "beta_vae_score", *drawn(name), draws="fresh")
    check(name, "factor_vae", "factor_vae_score", *drawn(name), draws="fresh", test_votes=20_000)


@pytest.mark.parametrize("name", STORED + HARD)
def test_stored_rows_agree_with_the_reference(name, stored, check):
    check(name, "beta_vae", "beta_vae_score", *stored(name), test=20_000)
    check(name, "factor_vae", "factor_vae_score", *stored(name), test_votes=20_000)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", STORED + HARD)
def test_other_classifiers_agree_with_the_reference(name, kind, drawn, stored, check):
    score, params = OTHERS[kind]
    check(name, kind, score, *stored(name), test=20_000, **params)
    if name in NOT_SATURATED:
        check(name, kind, score, *drawn(name), draws="fresh", **params)


@every_score
@pytest.mark.parametrize("stretch", [lambda g: g, np.exp, lambda g: g**3 + g])
def test_perfect_codes_score_one(name, stretch):
    factors = grid(5, 6, 7)
    codes = stretch((factors - factors.mean(0)) / factors.std(0))
    assert headline(few(name, codes, factors)) == 1.0
    assert headline(few(name, np.hstack([codes, codes]), factors)) == 1.0


@pytest.mark.parametrize(
    ("name", "expected"), [("beta_vae_score", 2 / 3), ("z_diff", 2 / 3), ("factor_vae_score", 0.5)]
)
def test_one_encoded_factor_of_three_leaves_two_at_chance(name, expected):
    """The noisy latent takes half of the other factors' votes, and is right about half of them."""
    rng = np.random.default_rng(0)
    factors = rng.integers((5, 6, 7), size=(9000, 3))
    codes = np.hstack([factors[:, :1], rng.normal(size=(9000, 1))])
    assert headline(SCORES[name](codes, factors)) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("name", ["beta_vae_score", "z_diff"])
def test_constant_codes_score_the_share_of_a_class(name):
    scores = SCORES[name](np.ones((210, 2)), grid(5, 6, 7), train=3000, test=3000)
    assert list(scores.values()) == pytest.approx([1 / 3, 1 / 3], abs=0.03)


def test_one_latent_scores_the_share_of_a_class_in_votes():
    value = headline(factor_vae_score(grid(5, 6, 7)[:, :1].astype(float), grid(5, 6, 7)))
    assert value == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("factors", [3, 5])
def test_a_missing_factor_costs_its_share_of_votes(factors):
    levels = np.random.default_rng(0).integers(6, size=(4000, factors))
    value = headline(factor_vae_score(levels[:, 1:].astype(float), levels))
    assert value == pytest.approx(1 - 1 / factors, abs=0.02)


def test_all_factors_but_one_suffice_for_the_linear_classifier():
    factors = grid(5, 6, 7)
    assert headline(few("beta_vae_score", factors[:, 1:].astype(float), factors)) == 1.0


@pytest.mark.parametrize("prune", [0.0, 0.05])
def test_constant_latents_never_vote(prune):
    factors = grid(5, 6, 7)
    codes = np.hstack([np.full((210, 2), 0.1), factors])
    scores = few("factor_vae_score", codes, factors, prune=prune)
    assert scores == {"factor_vae_score": 1.0, "train_accuracy": 1.0, "active": 3.0}


def test_without_active_latents_the_score_is_zero():
    factors = grid(5, 6, 7)
    narrow = 0.01 * (factors - factors.mean(0)) / factors.std(0)
    nothing = {"factor_vae_score": 0.0, "train_accuracy": 0.0, "active": 0.0}
    assert factor_vae_score(narrow, factors) == nothing
    assert factor_vae_score(np.full((210, 3), 0.1), factors, prune=0.0) == nothing
    assert few("factor_vae_score", narrow, factors, prune=0.0)["active"] == 3.0


def test_pruning_keeps_what_is_exactly_at_the_threshold():
    factors = grid(2, 2)
    codes = np.hstack([factors, 0.25 * factors[:, :1]]).astype(float)
    at = float(codes[:, 2].std(ddof=1))
    assert factor_vae_score(codes, factors, prune=at)["active"] == 3.0
    assert factor_vae_score(codes, factors, prune=at + 1e-9)["active"] == 2.0


def test_a_noisy_latent_takes_the_votes_of_a_missing_factor_unless_pruned():
    rng = np.random.default_rng(0)
    levels = rng.integers((5, 6, 7), size=(4000, 3))
    codes = np.hstack([levels[:, :2], 0.01 * rng.normal(size=(4000, 3))])
    pruned, raw = (headline(factor_vae_score(codes, levels, prune=p)) for p in (0.05, 0.0))
    assert raw > 0.9 > 0.7 > pruned


def test_small_codes_are_lost_to_the_penalty_of_the_linear_classifier():
    factors = grid(5, 6, 7)
    codes = (factors - factors.mean(0)) / factors.std(0)
    small, large = (headline(beta_vae_score(s * codes, factors, train=1000)) for s in (0.01, 100))
    assert small < 0.6 and large == 1.0


@every_score
def test_offsets_of_single_precision_codes_do_no_harm(name):
    factors = grid(5, 6, 7)
    assert headline(few(name, (factors + 1e4).astype(np.float32), factors)) == 1.0


@every_score
def test_a_seed_fixes_the_score(name):
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(300, 3)), rng.integers(3, size=(300, 3))
    first, again, other = (few(name, codes, factors, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@every_score
def test_fresh_draws_and_rows_of_a_full_grid_agree(name):
    sizes, turn = (5, 6, 7), np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    noise = np.random.default_rng(1)
    encode = lambda levels: levels @ turn + 2 * noise.normal(size=levels.shape)  # noqa: E731
    factors = np.repeat(grid(*sizes), 50, axis=0)
    row, fresh = SCORES[name](encode(factors), factors), SCORES[name](encode, sizes, draws="fresh")
    assert headline(row) == pytest.approx(headline(fresh), abs=0.03)
    assert headline(fresh) < 0.99


@every_score
def test_a_factor_that_never_changes_is_not_asked_for(name):
    factors = np.hstack([grid(5, 6), np.zeros((30, 1), int)])
    assert headline(few(name, factors.astype(float), factors)) == 1.0
    assert headline(few(name, lambda levels: levels, (5, 1, 6), draws="fresh")) == 1.0


@every_score
def test_draws_and_codes_must_fit_each_other(name):
    with pytest.raises(DataError, match="function from levels"):
        few(name, grid(3, 3), grid(3, 3), draws="fresh")
    with pytest.raises(DataError, match='draws="fresh"'):
        few(name, lambda levels: levels, (3, 3))
    with pytest.raises(DataError, match="sizes"):
        few(name, lambda levels: levels, grid(3, 3), draws="fresh")
    with pytest.raises(DataError, match="5 codes for"):
        few(name, lambda levels: levels[:5], (3, 3), draws="fresh")


@every_score
def test_a_single_factor_is_refused(name):
    with pytest.raises(DataError, match="at least 2 factors"):
        few(name, np.arange(4.0)[:, None], np.arange(4))
    with pytest.raises(DataError, match="at least 2 factors"):
        few(name, lambda levels: levels, (4, 1), draws="fresh")


def test_a_batch_of_one_has_no_variance():
    with pytest.raises(ParameterError, match="batch"):
        factor_vae_score(grid(3, 3), grid(3, 3), batch=1)


@every_score
def test_few_points_of_one_class_are_no_error(name):
    sizes = {key: 1 for key in FEW[name]}
    assert headline(SCORES[name](grid(3, 3), grid(3, 3), **sizes)) in (0.0, 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 99))
def test_batches_share_the_level_of_the_fixed_factor(levels, factors, seed):
    rng = np.random.default_rng(seed)
    f = rng.integers(levels, size=(40, factors))
    f[:levels] = np.arange(levels)[:, None]
    fixed = rng.integers(factors, size=30)
    for source in (RowSampler(f, f), FreshSampler(lambda x: x, [levels] * factors)):
        z = source.sharing(fixed, 6, rng)
        shared = z[np.arange(30), :, fixed]
        assert z.shape == (30, 6, factors) and (shared == shared[:, :1]).all()
        assert (z != z[:, :1]).any()


def test_every_row_of_a_level_is_drawn_equally_often():
    f = np.repeat([[0, 0], [1, 0], [1, 1]], [2, 3, 5], axis=0)
    source = RowSampler(np.arange(10.0)[:, None], f)
    z = source.sharing(np.zeros(5000, int), 4, np.random.default_rng(0))
    counts = np.bincount(z.astype(int).ravel(), minlength=10)
    assert np.allclose(counts / counts.sum(), 0.1, atol=0.01)  # levels by their frequency


def test_large_draws_are_encoded_in_few_calls_of_bounded_size():
    sizes = []
    encode = lambda levels: sizes.append(len(levels)) or levels  # noqa: E731
    x, y = pair_differences(FreshSampler(encode, (4, 5)), 2000, 64, np.random.default_rng(0))
    assert x.shape == (2000, 2) and y.shape == (2000,)
    assert sum(sizes) == 2000 * 128 and max(sizes) <= 2**16 and len(sizes) <= 5
