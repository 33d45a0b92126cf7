"""Facts special to the sparse InteL-VAE, in double precision."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine import ParameterError
from untwine.models.intel_sparse import sparsity
from untwine.records import Batch

NORMALISE = ["after", "before"]
seeds = st.integers(0, 2**16)


def positive(rows, dims, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, dims, generator=generator, dtype=torch.float64) ** 3


def make(data, **settings):
    return untwine.build("intel-sparse", data, network="mlp", width=16, latent=4, **settings)


def hoyer(codes):
    """The mean over codes (N, D) of (√D − ‖z‖₁/‖z‖₂)/(√D − 1), each latent in units of its std."""
    z = codes / codes.std(0, correction=0)
    root = math.sqrt(codes.shape[1])
    return ((root - z.norm(1, -1) / z.norm(dim=-1)) / (root - 1)).mean().item()


@pytest.mark.parametrize("normalise", NORMALISE)
@given(seeds, st.integers(1, 6))
def test_rows_equal_up_to_scale_have_no_penalty(normalise, seed, rows):
    v = positive(1, 5, seed) * (0.1 + positive(rows, 1, seed + 1))
    assert sparsity(v, normalise).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("normalise", NORMALISE)
@pytest.mark.parametrize("m", [1, 2, 4, 7])
def test_disjoint_one_hot_rows_give_minus_log_m(normalise, m):
    value = sparsity(torch.eye(m, 9, dtype=torch.float64), normalise).item()
    assert value == pytest.approx(-math.log(m), abs=1e-7)  # -1.3862944 for 4


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_rows_of_equal_sum_give_minus_a_jensen_shannon_divergence(seed, rows, dims):
    v = positive(rows, dims, seed)
    v = v / v.sum(-1, keepdim=True)
    mean = v.mean(0)
    divergence = (v * (v / mean).log()).nan_to_num().sum(-1).mean()
    after, before = (sparsity(v, how).item() for how in NORMALISE)
    assert after == pytest.approx(before, abs=1e-9)
    assert after == pytest.approx(-divergence.item(), abs=1e-9)
    assert -math.log(min(rows, dims)) - 1e-9 <= after <= 1e-9


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_normalising_before_averaging_is_never_positive(seed, rows, dims):
    assert sparsity(positive(rows, dims, seed), "before").item() <= 1e-9


@pytest.mark.parametrize("normalise", NORMALISE)
def test_gradients_are_finite_where_values_vanish(normalise):
    v = torch.tensor([[0.0, 0, 0], [0, 0, 1], [1e-30, 0.5, 1]], requires_grad=True)
    sparsity(v, normalise).backward()
    assert v.grad.isfinite().all()


def test_the_loss_is_the_bound_plus_gamma_times_the_regulariser(tiny):
    model = make(tiny, gamma=7).double()
    trace = model.trace(Batch(tiny.take(list(range(16))).double()))
    values = model.objective(trace)
    assert torch.allclose(values["loss"], values["nll"] + values["kl"] + 7 * values["sparsity"])
    assert torch.allclose(values["sparsity"], sparsity(trace.extras["gate"]))
    assert torch.equal(trace.w, trace.z * trace.extras["gate"])


def test_gamma_zero_is_the_mapping_without_regulariser(tiny):
    values = make(tiny, gamma=0).objective(make(tiny).trace(Batch(tiny.take([0, 1, 2]))))
    assert torch.equal(values["loss"], values["nll"] + values["kl"])


def test_gates_that_are_always_open_make_the_vae_bit_for_bit(tiny):
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=4)
    model = make(tiny, gamma=0, floor=1)
    model.load_state_dict(plain.state_dict(), strict=False)
    options = {"steps": 20, "batch": 8, "quiet": True}
    history, expected = (untwine.fit(m, tiny, **options) for m in (model, plain))
    assert [{k: row[k] for k in row if k != "sparsity"} for row in history] == expected


def test_gates_stay_above_their_floor(tiny):
    gate = make(tiny, floor=0.2).mapping(100 * torch.randn(64, 4))[1]["gate"]
    assert (gate >= 0.2).all() and (gate <= 1).all()
    gate = make(tiny).mapping(100 * torch.randn(64, 4))[1]["gate"]
    assert gate.min() < 0.2


def test_the_regulariser_can_look_at_the_code(tiny):
    model = make(tiny, on="code", normalise="before")
    trace = model.trace(Batch(tiny.take(list(range(16)))))
    expected = sparsity(trace.w.abs(), "before")
    assert torch.equal(model.objective(trace)["sparsity"], expected)


def test_one_example_has_no_penalty(tiny):
    model = make(tiny)
    value = model.objective(model.trace(Batch(tiny.take([0]))))["sparsity"]
    assert value.item() == pytest.approx(0, abs=1e-6)


def test_bad_numbers_are_refused(tiny):
    with pytest.raises(ParameterError, match=r"intel-sparse\.gamma must be a number of at least 0"):
        make(tiny, gamma=-1)
    with pytest.raises(ParameterError, match=r"intel-sparse\.floor must be a number from 0 to 1"):
        make(tiny, floor=1.5)


@pytest.mark.parametrize(("dims", "expected"), [(50, 0.2308), (128, 0.2203), (10, 0.2665)])
def test_dense_gaussian_codes_have_the_hoyer_sparsity_of_the_papers_vae(dims, expected):
    torch.manual_seed(0)
    assert hoyer(torch.randn(20_000, dims).double()) == pytest.approx(expected, abs=1e-3)


def test_hoyer_sparsity_is_one_for_one_hot_codes():
    assert hoyer(torch.eye(6).double()) == pytest.approx(1)


def test_hoyer_sparsity_is_zero_for_codes_of_constant_size():
    signs = torch.cartesian_prod(*3 * [torch.tensor([-1.0, 1.0], dtype=torch.float64)])
    assert hoyer(signs) == pytest.approx(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_codes_become_sparser_as_gamma_grows(seed, tiny):
    index = torch.randperm(len(tiny), generator=torch.Generator().manual_seed(seed))[:2000]
    scores = []
    for gamma in (0, 3, 10):
        model = untwine.build("intel-sparse", tiny, network="mlp", width=64, gamma=gamma, seed=seed)
        untwine.fit(model, tiny, steps=2000, lr=1e-3, seed=seed, quiet=True)
        scores.append(hoyer(model.encode(tiny.take(index)).double()))
    assert scores == sorted(scores) and scores[2] - scores[0] > 0.2


def test_normalising_after_averaging_weighs_rows_by_their_size():
    v = torch.tensor([[1.0, 0, 0], [0, 3, 0]]).double()
    pooled = torch.tensor([0.25, 0.75]).double()
    assert sparsity(v, "after").item() == pytest.approx(
        (pooled * pooled.log()).sum().item(), abs=1e-9
    )
    assert sparsity(v, "before").item() == pytest.approx(-math.log(2), abs=1e-9)
