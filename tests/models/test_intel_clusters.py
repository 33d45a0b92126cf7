"""Facts special to the clustered InteL-VAE, in double precision."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine import IncompatibleError, ParameterError
from untwine.models.intel_clusters import Clusters, push
from untwine.records import Batch, Sizes

KS = [2, 3, 4, 5, 10]
ks = st.sampled_from(KS)
points = st.tuples(st.floats(-5, 5), st.floats(-5, 5))


def mapping(*clusters, latent=2, learned=False, c1=5.0, eta=1e-6):
    away = partial(push, c1=c1, c2=0.2, eta=eta)
    sizes = Sizes(torch.Size((2,)), latent=latent)
    return Clusters(sizes, clusters=clusters, learned=learned, away=away).double()


def at(angle, radius=1.0):
    angle = torch.as_tensor(angle, dtype=torch.float64)
    return radius * torch.stack([angle.cos(), angle.sin()], -1)


def start(k):
    return -math.pi / 2 if k == 2 else 0.0


def by_angle(y, edges):
    """The map written with angles: edges (K+1,) from the first boundary to itself again."""
    turn = (torch.atan2(y[:, 1], y[:, 0]) - edges[0]).remainder(2 * math.pi) + edges[0]
    k = (torch.searchsorted(edges, turn, right=True) - 1).clamp(0, len(edges) - 2)
    gap = torch.minimum(turn - edges[k], edges[k + 1] - turn).clamp(max=math.pi / 2)
    dis = y.norm(dim=-1) * gap.sin()
    return y + push(dis, 5.0, 0.2, 1e-6)[:, None] * at((edges[k] + edges[k + 1]) / 2)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", KS)
def test_the_map_is_the_papers(k):
    edges = torch.arange(k + 1).double() * 2 * math.pi / k + start(k)
    y = normal(2000, 2)
    assert torch.allclose(mapping(k)(y)[0], by_angle(y, edges), atol=1e-10)


@pytest.mark.parametrize("k", KS)
def test_points_on_a_boundary_stay(k):
    angle = start(k) + torch.arange(k).double() * 2 * math.pi / k
    y = torch.cat([at(angle, radius) for radius in (0.0, 0.1, 1.0, 4.0)])
    assert torch.allclose(mapping(k)(y)[0], y, atol=1e-9)


@given(points, ks, st.floats(-3, 3))
def test_the_map_is_continuous(y, k, angle):
    first = torch.tensor([y], dtype=torch.float64)
    second = first + at([angle], 1e-12)  # the slope is at most c₁ c₂ η^(c₂−1), about 63,000
    difference = mapping(k)(first)[0] - mapping(k)(second)[0]
    assert difference.abs().max() < 1e-6


@pytest.mark.parametrize("k", KS)
def test_rotating_by_a_sector_rotates_the_result(k):
    angle = torch.tensor(2 * math.pi / k, dtype=torch.float64)
    rotation = torch.stack([at(angle), at(angle + math.pi / 2)])
    y, g = normal(1000, 2), mapping(k)
    assert torch.allclose(g(y @ rotation)[0], g(y)[0] @ rotation, rtol=0, atol=1e-11)


@pytest.mark.parametrize("k", KS)
def test_sectors_are_equally_likely_under_the_prior(k):
    shares = mapping(k)(normal(100_000, 2))[1]["cluster"].mean(0)
    assert torch.allclose(shares, torch.full((k,), 1 / k).double(), atol=5e-3)


@given(points, ks, st.floats(1e-3, 3))
def test_order_along_the_direction_of_a_sector_is_kept(y, k, step):
    g = mapping(k)
    near = torch.tensor([y], dtype=torch.float64)
    which = g(near)[1]["cluster"].argmax(-1)
    r = at(start(k) + (which + 0.5) * 2 * math.pi / k)
    assert ((g(near + step * r)[0] - g(near)[0]) * r).sum() >= step * (1 - 1e-9)


@given(
    st.tuples(*2 * [st.sampled_from([0.0, -0.0, 1e-45, -1e-20, 1e-7, 0.3, -1.0, 100.0])]),
    st.sampled_from([(2,), (3,), (4,), (10,)]),
)
def test_gradients_are_finite_everywhere(y, clusters):
    g = mapping(*clusters, learned=True).float()
    y = torch.tensor([y], requires_grad=True)
    g(y)[0].sum().backward()
    assert y.grad.isfinite().all() and g.planes[0].u.grad.isfinite().all()


@given(st.floats(-5, 5))
def test_one_dimension_is_the_first_axis_of_two_sectors(y):
    line, which = mapping(2, latent=1)(torch.tensor([[y]], dtype=torch.float64))
    plane, also = mapping(2)(torch.tensor([[y, 0.0]], dtype=torch.float64))
    assert line.item() == pytest.approx(plane[0, 0].item(), abs=1e-10)
    assert torch.equal(which["cluster"], also["cluster"]) or abs(y) < 1e-9


def test_two_sectors_only_move_the_first_coordinate():
    y = normal(1000, 2)
    moved = mapping(2, eta=1e-300)(y)[0]
    expected = y[:, 0] + 5 * y[:, 0].sign() * y[:, 0].abs() ** 0.2
    assert torch.allclose(moved[:, 0], expected, atol=1e-9)
    assert torch.allclose(moved[:, 1], y[:, 1], atol=1e-12)


def test_planes_multiply_and_other_latents_stay():
    y = normal(500, 7)
    w, facts = mapping(3, 4, latent=7)(y)
    first, second = mapping(3)(y[:, :2]), mapping(4)(y[:, 2:4])
    assert torch.equal(w, torch.cat([first[0], second[0], y[:, 4:]], -1))
    pairs = first[1]["cluster"].argmax(-1) * 4 + second[1]["cluster"].argmax(-1)
    assert facts["cluster"].shape == (500, 12)
    assert torch.equal(facts["cluster"].argmax(-1), pairs)


def test_without_a_push_it_is_the_vae_bit_for_bit(tiny):
    plain, model = (
        untwine.build(name, tiny, network="mlp", width=16, latent=4, **settings)
        for name, settings in (("vae", {}), ("intel-clusters", {"c1": 0}))
    )
    options = {"steps": 20, "batch": 8, "quiet": True}
    assert untwine.fit(model, tiny, **options) == untwine.fit(plain, tiny, **options)


@pytest.mark.parametrize("k", KS)
def test_proportions_start_equal_and_then_the_map_is_the_fixed_one(k):
    y = normal(500, 2)
    assert torch.equal(mapping(k, learned=True)(y)[0], mapping(k)(y)[0])
    line = y[:, :1]
    fixed, learned = (mapping(2, latent=1, learned=how)(line)[0] for how in (False, True))
    assert torch.equal(fixed, learned)


def with_proportions(*p):
    g = mapping(len(p), learned=True)
    g.planes[0].u.data = torch.tensor(p, dtype=torch.float64).log()
    return g


@pytest.mark.parametrize("p", [(0.7, 0.3), (0.1, 0.85, 0.05), (0.4, 0.3, 0.2, 0.1)])
def test_unequal_sectors_have_their_share_and_the_papers_map(p):
    g, y = with_proportions(*p), normal(100_000, 2)
    w, facts = g(y)
    expected = torch.tensor(p, dtype=torch.float64)
    assert torch.allclose(facts["cluster"].mean(0), expected, atol=5e-3)
    assert torch.allclose(g.proportions()[0], expected)
    angles = torch.cat([torch.zeros(1).double(), expected.cumsum(0)]) * 2 * math.pi
    assert torch.allclose(w, by_angle(y, angles + start(len(p))), atol=1e-9)


def test_a_bias_on_the_line_gives_the_normal_share():
    g = mapping(2, latent=1, learned=True)
    g.planes[0].b.data.fill_(0.3)
    assert g.proportions()[0][0].item() == pytest.approx(0.6179114, abs=1e-7)
    w, facts = g(normal(100_000, 1))
    assert facts["cluster"].mean(0)[0].item() == pytest.approx(0.6179114, abs=5e-3)
    assert torch.equal(facts["cluster"][:, 0] == 1, w[:, 0] >= 0)


def test_proportions_receive_gradients_away_from_boundaries():
    plane, line = with_proportions(0.5, 0.2, 0.3), mapping(2, latent=1, learned=True)
    plane(at([1.0]))[0].sum().backward()
    line(torch.tensor([[0.7]]).double())[0].sum().backward()
    for gradient in (plane.planes[0].u.grad, line.planes[0].b.grad):
        assert gradient.isfinite().all() and (gradient != 0).all()


def test_the_gradient_of_the_proportions_agrees_with_differences():
    u, y = torch.randn(4, dtype=torch.float64, requires_grad=True), normal(6, 2)
    g = mapping(4, learned=True, eta=1e-2)

    def moved(u, y):
        return torch.func.functional_call(g, {"planes.0.u": u}, (y,))[0]

    assert torch.autograd.gradcheck(moved, (u, y.requires_grad_()))


def test_learned_proportions_are_parameters_and_fixed_ones_are_not(tiny):
    for learned in (True, False):
        model = untwine.build("intel-clusters", tiny, network="mlp", width=16, learned=learned)
        assert ("mapping.planes.0.u" in model.state_dict()) == learned
        assert [p.tolist() for p in model.mapping.proportions()] == [pytest.approx([0.1] * 10)]


def test_examples_are_assigned_to_the_sector_of_their_mean(tiny):
    model = untwine.build("intel-clusters", tiny, network="mlp", width=16, clusters=(3, 2))
    x = tiny.take(list(range(16)))
    trace = model.trace(Batch(x), mean=True)
    assert torch.equal(model.assign(x), trace.extras["cluster"].argmax(-1))
    assert trace.extras["cluster"].shape == (16, 6)


def test_what_cannot_work_is_refused(tiny):
    build = partial(untwine.build, "intel-clusters", tiny, network="mlp", width=16)
    for bad in ({"clusters": ()}, {"clusters": (3, 1)}, {"c1": -1}, {"c2": 0}, {"eta": 0}):
        with pytest.raises(ParameterError, match=r"intel-clusters\.\w+ must"):
            build(**bad)
    for latent, clusters in ((1, (10,)), (1, (2, 2)), (3, (2, 2))):
        with pytest.raises(IncompatibleError, match="2 latents for each"):
            build(latent=latent, clusters=clusters)


def two_gaussians(share, seed, n=5000):
    rng = np.random.default_rng(seed)
    x = 0.3 * rng.standard_normal((n, 2))
    x[:, 0] += np.where(rng.random(n) < share, 2, -2)
    return untwine.from_arrays(x)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "seed"), [(0.5, 0), (0.4, 1), (0.25, 0), (0.25, 1), (0.2, 1)])
def test_the_proportions_of_two_gaussians_are_learned(share, seed):
    data = two_gaussians(share, seed)
    model = untwine.build(
        "intel-clusters",
        data,
        latent=1,
        network="mlp",
        width=16,
        variance=0.1,
        clusters=(2,),
        learned=True,
        seed=seed,
    )
    untwine.fit(model, data, steps=4000, batch=128, lr=1e-2, seed=seed, quiet=True)
    x = data.take(list(range(100)))
    right = model.assign(x)[x[:, 0].argmax()]
    assert model.mapping.proportions()[0][right].item() == pytest.approx(share, abs=0.1)


def lines(k, latent=None, learned=False, boundary="bias", c1=1.0, c2=0.2, eta=1e-6):
    away = partial(push, c1=c1, c2=c2, eta=eta)
    sizes = Sizes(torch.Size((2,)), latent=latent or k)
    options = {"lines": True, "boundary": boundary}
    return Clusters(sizes, clusters=(2,) * k, learned=learned, away=away, **options).double()


def test_each_of_the_first_latents_is_split_by_itself():
    y, one = normal(500, 5), mapping(2, latent=1, c1=1.0)
    w, extras = lines(3, latent=5)(y)
    for d in range(3):
        assert torch.equal(w[:, d : d + 1], one(y[:, d : d + 1])[0])
    assert torch.equal(w[:, 3:], y[:, 3:])
    code = (y[:, :3] < 0).long() @ torch.tensor([4, 2, 1])
    assert torch.equal(extras["cluster"].argmax(-1), code)


def test_two_to_the_k_clusters_are_equally_likely():
    shares = lines(4)(normal(100_000, 4))[1]["cluster"].mean(0)
    assert torch.allclose(shares, torch.full((16,), 1 / 16).double(), atol=4e-3)
    assert [p.tolist() for p in lines(4).proportions()] == [[0.5, 0.5]] * 4


def point(y):
    return torch.tensor([[y, 0.0, 0.0]], dtype=torch.float64)


def moved(t, **options):
    """One latent of three that is split at t."""
    g = lines(1, latent=3, learned=True, boundary="moved", **options)
    share = torch.tensor((t + 4) / 8, dtype=torch.float64)
    g.planes[0].b.data.fill_(share.logit().item())
    return g


@given(st.floats(-3.5, 3.5))
def test_a_moved_boundary_has_the_normal_share_and_leaves_points_where_they_are(t):
    g = moved(t, c1=0.0)
    y = normal(200, 3)
    w, extras = g(y)
    assert torch.equal(w, y)
    assert torch.equal(extras["cluster"][:, 0] == 1, y[:, 0] >= g.planes[0].cut())
    expected = torch.special.ndtr(torch.tensor([-t, t], dtype=torch.float64))
    assert torch.allclose(g.proportions()[0], expected, atol=1e-9)


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_points_are_pushed_away_from_a_moved_boundary(t, y):
    w = moved(t, c1=5.0, c2=0.5, eta=1e-12)(point(y))[0]
    expected = y + 5 * math.copysign(math.sqrt(abs(y - t)), y - t)
    assert w[0, 0].item() == pytest.approx(expected, abs=2e-5)


@given(st.floats(-3, 3), st.sampled_from([-1e-12, 0.0, 1e-12]))
def test_the_split_at_a_moved_boundary_is_continuous(t, step):
    g = moved(t)
    at_cut = g.planes[0].cut().item()
    w = g(point(at_cut + step))[0]
    assert w[0, 0].item() == pytest.approx(at_cut, abs=1e-6)


def test_the_gradient_of_a_moved_boundary():
    """dw/dt = −c₁c₂(|y − t| + η)^(c₂−1) on both sides, and dt/db = 8 s(1 − s)."""
    g = moved(0.5, c1=5.0, c2=0.5, eta=1e-3)
    s = (0.5 + 4) / 8
    for y in (-1.0, 0.2, 2.0):
        g.zero_grad()
        g(point(y))[0][0, 0].backward()
        slope = -5 * 0.5 * (abs(y - 0.5) + 1e-3) ** -0.5
        assert g.planes[0].b.grad.item() == pytest.approx(slope * 8 * s * (1 - s), rel=1e-9)


def test_a_bias_on_the_first_of_many_latents_gives_the_normal_share():
    g = lines(1, latent=50, learned=True, c2=0.5)
    g.planes[0].b.data.fill_(0.3)
    assert g.proportions()[0][0].item() == pytest.approx(0.6179114, abs=1e-7)
    one = mapping(2, latent=1, learned=True)
    one.planes[0].b.data.fill_(0.3)
    assert torch.equal(g(normal(9, 50))[1]["cluster"], one(normal(9, 50)[:, :1])[1]["cluster"])


def test_the_split_of_lines_by_name(tiny):
    build = partial(untwine.build, "intel-clusters", tiny, network="mlp(width=8)", split="lines")
    model = build(latent=50, clusters=(2,), learned=True, boundary="moved", c2=0.5)
    assert "mapping.planes.0.b" in model.state_dict()
    with pytest.raises(ParameterError, match="must be 2 for each latent"):
        build(clusters=(10,))
    with pytest.raises(IncompatibleError, match="needs 3 latents to split, not 2"):
        build(latent=2, clusters=(2, 2, 2))
