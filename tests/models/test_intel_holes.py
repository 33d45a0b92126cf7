"""Facts special to the InteL-VAE with holes, in double precision."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine import IncompatibleError, ParameterError
from untwine.models.intel_holes import GluedCircle, arc, glue
from untwine.models.intel_sphere import to_sphere
from untwine.records import Sizes

HOLES = [1, 2, 3, 4, 7]
angles = st.floats(-math.pi, math.pi)


def on_circle(angle):
    return torch.stack([angle.cos(), angle.sin()], -1)


def mapped(y, holes=2, epsilon=1e-7):
    y = torch.as_tensor(y, dtype=torch.float64).reshape(-1, len(y))
    sizes = Sizes(torch.Size((2,)), latent=y.shape[1])
    return GluedCircle(sizes, holes=holes, epsilon=epsilon)(y)[0][0]


def test_the_arc_starts_at_zero_and_ends_at_one_over_root_three():
    ends = arc(torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert ends.tolist() == pytest.approx([0, 1 / math.sqrt(3)], abs=1e-15)


def test_two_holes_are_the_papers_formula():
    r = 3 / math.sqrt(2)
    assert mapped([r, r]).tolist() == pytest.approx([0.70710676, 0.38154499], abs=1e-8)
    for sign in (1, -1):
        assert mapped([0.0, sign * 3.0]).tolist() == pytest.approx([0, 0], abs=1e-7)
        assert mapped([sign * 3.0, 0.0]).tolist() == pytest.approx([sign, 0], abs=1e-7)


@given(angles)
def test_two_holes_agree_with_the_formula_everywhere(angle):
    c = on_circle(torch.tensor([angle], dtype=torch.float64))
    formula = torch.stack([c[:, 0], c[:, 1] * arc(c[:, 0].abs())], -1)
    assert torch.allclose(glue(c, 2), formula, atol=1e-15)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_one_hole_is_the_circle(a, b):
    y = torch.tensor([[a, b]], dtype=torch.float64)
    assert torch.equal(mapped([a, b], holes=1), to_sphere(y, 1e-7)[0])


@given(angles, st.sampled_from(HOLES))
def test_mirroring_the_second_coordinate_mirrors_the_result(angle, holes):
    c = on_circle(torch.tensor([angle, -angle], dtype=torch.float64))
    upper, lower = glue(c, holes)
    assert torch.allclose(upper * torch.tensor([1.0, -1.0]).double(), lower, atol=1e-15)


@given(angles, st.sampled_from(HOLES))
def test_the_map_is_continuous_along_the_circle(angle, holes):
    c = on_circle(torch.tensor([angle, angle + 1e-7], dtype=torch.float64))
    first, second = glue(c, holes)
    assert (first - second).abs().max() < 1e-5


@pytest.mark.parametrize("holes", HOLES[1:])
def test_the_two_points_at_each_joint_are_glued(holes):
    joints = torch.arange(1, holes).double() * 2 / holes - 1
    for angle in (joints.acos(), -joints.acos()):
        expected = torch.stack([joints, torch.zeros_like(joints)], -1)
        assert torch.allclose(glue(on_circle(angle), holes), expected, atol=1e-12)


@pytest.mark.parametrize("holes", HOLES)
def test_no_other_points_are_glued(holes):
    angle = torch.linspace(0, 2 * math.pi, 100_001, dtype=torch.float64) - 0.1
    close = glue(on_circle(angle), holes)[:, 1].abs() < 1e-3
    visits = (close[1:] & ~close[:-1]).sum().item()
    assert visits == 2 * (holes - 1) + 2  # two for each joint, and the two ends of the axis


@pytest.mark.parametrize("holes", HOLES)
@pytest.mark.parametrize(
    "y", [(0, 0), (0, 1), (1, 0), (-2, 0), (0, -1e-20), (1e-30, 0), (1 / 3, 1)]
)
def test_gradients_are_finite(holes, y):
    y = torch.tensor([y], dtype=torch.float32, requires_grad=True)
    mapping = GluedCircle(Sizes(torch.Size((2,)), latent=2), holes=holes, epsilon=1e-7)
    mapping(y)[0].sum().backward()
    assert y.grad.isfinite().all()


def test_other_latents_stay_as_they_are(tiny):
    model = untwine.build("intel-holes", tiny, network="mlp", width=16, latent=5, holes=3)
    trace = model.trace(untwine.Batch(tiny.take(list(range(8)))))
    assert torch.equal(trace.w[:, 2:], trace.z[:, 2:])
    assert trace.w[:, :2].norm(dim=-1).max() <= 1 + 1e-6


def test_bad_numbers_are_refused(tiny):
    with pytest.raises(
        ParameterError, match=r"intel-holes\.holes must be a whole number from 1 to"
    ):
        untwine.build("intel-holes", tiny, network="mlp", holes=0)
    with pytest.raises(ParameterError, match=r"intel-holes\.epsilon must be a number above 0"):
        untwine.build("intel-holes", tiny, network="mlp", epsilon=-1)
    with pytest.raises(IncompatibleError, match="at least 2 latents"):
        untwine.build("intel-holes", tiny, network="mlp", latent=1)
