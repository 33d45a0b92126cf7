"""The rules by which studies and claims are decided, checked by simulation."""

import numpy as np
import pytest

from untwine.study import inference
from untwine.study.inference import Decision, decide, decide_all


def verdicts(draw, times, seed=0):
    """The verdicts on many simulated sets of margins."""
    rng = np.random.default_rng(seed)
    return [decide(draw(rng)).verdict for _ in range(times)]


def test_an_interval_above_zero_supports_and_one_below_contradicts():
    margins = np.array([0.9, 1.0, 1.1, 1.05])
    assert decide(margins).verdict == "supported" and decide(-margins).verdict == "contradicted"
    assert decide(np.array([1.0])).verdict == "undecided" and decide(np.array([1.0])).needed is None
    assert decide(np.array([0.2, np.nan, 0.2])).n == 2


def test_students_interval_is_scipys():
    from scipy import stats

    values = np.random.default_rng(0).normal(0.3, 1, 12)
    reference = stats.ttest_1samp(values, 0.0)
    assert inference.p_value(values) == pytest.approx(reference.pvalue)
    low, high = reference.confidence_interval(0.95)
    assert inference.interval(values) == pytest.approx((low, high))


@pytest.mark.parametrize("effect", [0.1, 0.3, 0.7, 1.0, 1.4, 2.0, 3.0])
def test_the_number_of_seeds_that_would_decide_is_the_least_one(effect):
    margins = np.array([-1.0, 0.0, 1.0]) + effect  # of standard deviation one
    needed = inference.seeds_needed(margins)
    assert inference.power(effect, needed) >= inference.POWER > inference.power(effect, needed - 1)


def test_a_claim_of_several_parts_is_as_strong_as_its_weakest():
    yes = decide(np.array([1.0, 1.1, 0.9, 1.0]))
    no = decide(-np.array([1.0, 1.1, 0.9, 1.0]))
    maybe = decide(np.array([1.0, -1.0, 0.5, -0.4]))
    assert decide_all([yes, yes]).verdict == "supported"
    assert decide_all([yes, maybe]).verdict == "undecided"
    assert decide_all([yes, maybe, no]).verdict == "contradicted"


def test_one_part_of_many_contradicts_only_after_holms_correction():
    def part(p):
        return Decision("contradicted" if p < 0.05 else "undecided", -1.0, -2.0, 0.1, p, 10)

    assert decide_all([part(0.03), part(0.5)]).verdict == "undecided"
    assert decide_all([part(0.02), part(0.5)]).verdict == "contradicted"


def test_a_part_that_contradicts_alone_is_shown_with_the_interval_of_the_correction():
    def part(effect):  # of five seeds, with a standard deviation of one
        return decide(effect + np.array([-2.0, -1, 0, 1, 2]) / np.sqrt(2.5))

    alone, others = part(-1.4), [part(0.5), part(0.6)]
    assert alone.verdict == "contradicted"
    together = decide_all([*others, alone])
    assert together.verdict == "undecided" and together.low < -1.4 < 0 < together.high
    # Of five values t(0.975) is 2.776, and t(1 − 0.05 / 6) is 3.961.
    assert together.high == pytest.approx(-1.4 + 3.961 / np.sqrt(5), abs=1e-3)
    level = 0.05 / 3
    assert inference.power(1.4, together.needed, level) >= inference.POWER
    assert inference.power(1.4, together.needed - 1, level) < inference.POWER


def test_kendalls_w_is_one_for_one_order_and_low_for_opposite_ones():
    same = np.tile(np.arange(6.0), (5, 1))
    w, p = inference.concordance(same)
    assert w == pytest.approx(1) and p < 0.001
    w, p = inference.concordance(np.stack([np.arange(6.0), -np.arange(6.0)]))
    assert w == pytest.approx(0) and p > 0.9


def test_a_share_of_wins_has_an_interval():
    rng = np.random.default_rng(0)
    found = inference.superiority(rng.normal(0, 1, 40), rng.normal(1, 1, 40), 0.05)
    true = 0.24  # P(N(0, 1) > N(1, 1))
    assert found.low < true < found.high and found.verdict == "supported"
    none = inference.superiority(rng.normal(0, 1, 100), rng.normal(9, 1, 100), 0.05)
    assert none.effect == 0 and none.verdict == "contradicted"


def test_the_jackknife_gives_the_mean_back():
    values = np.random.default_rng(0).normal(size=9)
    pseudo = inference.pseudo_values(list(values), lambda units: float(np.mean(units)))
    assert pseudo == pytest.approx(values)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_false_positives_are_near_five_per_cent(n):
    """With no effect: normal margins, heavy tails, differences of bounded scores."""
    draws = {
        "normal": lambda rng: rng.normal(size=n),
        "heavy tails": lambda rng: rng.standard_t(4, size=n),
        "bounded": lambda rng: rng.beta(2, 5, size=n) - rng.beta(2, 5, size=n),
    }
    for name, draw in draws.items():
        wrong = np.mean([v != "undecided" for v in verdicts(draw, 4000)])
        print(f"{n} seeds, {name}: wrong in {wrong:.1%} of cases without an effect")
        assert 0.025 < wrong < 0.065


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_pairing_keeps_its_promise_and_gains_from_what_seeds_share(shared):
    """Two settings whose runs share part of their variance through the seed."""
    n, effect = 10, 0.5

    def draw(rng, gain):
        seed = np.sqrt(shared) * rng.normal(size=n)
        own = np.sqrt(1 - shared)
        return gain + (seed + own * rng.normal(size=n)) - (seed + own * rng.normal(size=n))

    wrong = np.mean([v != "undecided" for v in verdicts(lambda rng: draw(rng, 0), 4000)])
    right = np.mean([v == "supported" for v in verdicts(lambda rng: draw(rng, effect), 2000)])
    assert 0.035 < wrong < 0.065
    expected = inference.power(effect / np.sqrt(2 * (1 - shared)), n)
    assert right == pytest.approx(expected, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "n"), [(0.5, 20), (1.0, 5), (1.0, 13), (1.5, 8), (3.0, 4)])
def test_power_is_as_computed(effect, n):
    found = verdicts(lambda rng: rng.normal(effect, 1, size=n), 4000)
    seen, expected = np.mean([v == "supported" for v in found]), inference.power(effect, n)
    print(f"{n} seeds, effect {effect}: decided in {seen:.1%}, computed {expected:.1%}")
    assert seen == pytest.approx(expected, abs=0.025)


@pytest.mark.slow
def test_a_share_of_wins_is_rarely_wrong():
    rng = np.random.default_rng(0)
    found = [
        inference.superiority(rng.normal(size=20), rng.normal(size=20), 0.5) for _ in range(3000)
    ]
    assert 0.03 < np.mean([d.verdict != "undecided" for d in found]) < 0.08


@pytest.mark.slow
def test_agreement_of_random_orders_is_rarely_seen():
    rng = np.random.default_rng(0)
    p = np.array([inference.concordance(rng.normal(size=(4, 5)))[1] for _ in range(300)])
    assert 0.01 < np.mean(p < 0.05) < 0.1
