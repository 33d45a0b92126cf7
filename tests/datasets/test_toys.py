"""Points in the plane: where they lie, and how samples are counted that miss them."""

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import ParameterError
from untwine.registry import datasets
from untwine.renderers.outlines import INSIDE, SQUARE, STAR, centres, in_polygon, on_polygon
from untwine.reproduce.papers.intel_vae.plane import share_between, share_in_hole

OUTLINES = list(INSIDE)


def points(expression):
    data = untwine.dataset(expression)
    return data.take(np.arange(len(data))).double().numpy()


def area(outline):
    x, y = outline.T
    return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def distance(x, outline):
    """(N,) from points (N, 2) to the nearest side."""
    a, b = outline, np.roll(outline, -1, 0)
    along = ((x[:, None] - a) * (b - a)).sum(-1) / np.square(b - a).sum(-1)  # (N, V)
    foot = a + np.clip(along, 0, 1)[..., None] * (b - a)
    return np.linalg.norm(x[:, None] - foot, axis=-1).min(-1)


def test_the_circle_has_radius_two_and_is_evenly_covered():
    x = points("circle")
    assert np.allclose(np.linalg.norm(x, axis=-1), 2, atol=1e-6)
    quarter = np.bincount(2 * (x[:, 0] > 0) + (x[:, 1] > 0)) / len(x)
    assert np.allclose(quarter, 1 / 4, atol=0.02)


def test_the_square_has_level_sides_and_corners_at_radius_two():
    assert np.allclose(sorted(map(tuple, SQUARE.round(9))), sorted_corners(np.sqrt(2)))
    assert np.allclose(np.abs(points("square")).max(-1), np.sqrt(2), atol=1e-6)


def sorted_corners(a):
    return sorted([(-a, -a), (-a, a), (a, -a), (a, a)])


def test_the_star_has_five_points_one_of_them_up_and_is_covered_evenly():
    radius = np.linalg.norm(STAR, axis=-1)
    assert np.allclose(radius[::2], 2) and np.allclose(radius[1::2], 2 / 3)
    assert np.allclose(STAR[0], [0, 2])
    x = points("star")
    assert distance(x, STAR).max() < 1e-6
    side = np.linalg.norm(STAR - np.roll(STAR, -1, 0), axis=-1)
    near = [(distance(x, STAR[[k, (k + 1) % 10]]) < 1e-5).mean() for k in range(10)]
    assert np.allclose(side, side[0]) and np.allclose(near, 0.1, atol=0.02)


def test_infinity_follows_its_formula_and_passes_the_origin():
    x, y = points("infinity").T
    assert np.allclose(y**2, x**2 * (1 - x**2 / 4), atol=1e-5)
    assert np.abs(x).max() > 1.99 and np.abs(np.stack([x, y])).max(0).min() < 0.01


def test_a_polygon_of_unequal_sides_is_covered_by_length():
    triangle = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    x = on_polygon(np.array([0.0, 0.25, 7 / 12]), triangle)
    assert np.allclose(x, [[0, 0], [3, 0], [3, 4]])


def test_two_clusters_lie_at_two_either_side():
    data = untwine.dataset("clusters")
    x, (level,) = points("clusters"), data.factors.table.T
    assert data.factors.names == ("cluster",) and data.factors.sizes == (2,)
    for k, place in enumerate([(2, 0), (-2, 0)]):
        assert (level == k).sum() == 5000
        assert np.allclose(x[level == k].mean(0), place, atol=0.02)
        assert np.allclose(x[level == k].std(0), 0.3, atol=0.02)


@pytest.mark.parametrize("weights", [(1, 1), (2, 3), (1, 3), (1, 4), (0, 1), (1, 0, 2)])
def test_proportions_are_exact(weights):
    data = untwine.dataset("clusters", proportions=weights, count=1000)
    share = np.bincount(data.factors.table[:, 0], minlength=len(weights)) / 1000
    assert np.allclose(share, np.array(weights) / sum(weights), atol=1e-3)
    assert data.factors.sizes == (len(weights),)


def test_clusters_can_be_counted_by_the_nearest_centre():
    x = points("clusters(proportions=1,2,3,4, spread=0.2)")
    nearest = np.linalg.norm(x[:, None] - centres(4), axis=-1).argmin(-1)
    assert np.allclose(np.bincount(nearest) / len(x), [0.1, 0.2, 0.3, 0.4], atol=1e-3)


@pytest.mark.parametrize("weights", [(), (0, 0)])
def test_clusters_without_weight_are_refused(weights):
    with pytest.raises(ParameterError, match="at least one weight above 0"):
        untwine.dataset("clusters", proportions=weights)


def test_a_point_of_the_cross_has_one_coordinate_that_counts():
    x = points("cross")
    small, large = np.sort(np.abs(x), axis=-1).T
    assert small.mean() < 0.05 and large.mean() > 0.7
    axis = untwine.dataset("cross").factors.table[:, 0]
    assert np.allclose(x[axis == 0].std(0), [1, 0.05], atol=0.02)


@pytest.mark.parametrize("shape", OUTLINES)
def test_no_data_lies_in_the_hole(shape):
    assert share_in_hole(points(shape), shape) == 0
    assert share_in_hole(1.05 * points(shape), shape) == 0
    inwards = np.array([1, 0]) if shape == "infinity" else 0
    assert share_in_hole(0.1 * points(shape) + inwards, shape) == 1


@pytest.mark.parametrize(
    ("shape", "all_of_it"),
    [
        ("circle", 4 * np.pi),
        ("square", 8),
        ("star", area(STAR)),
        ("infinity", 16 / 3),
    ],
)
@pytest.mark.parametrize("shrink", [0.5, 1])
def test_the_hole_has_its_area(shape, all_of_it, shrink):
    side = (np.arange(800) + 0.5) / 200 - 2
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    found = 16 * share_in_hole(grid, shape, shrink=shrink)
    assert found == pytest.approx(all_of_it * shrink**2, rel=1e-2)


def test_the_hole_of_the_circle_is_a_radius_of_one():
    assert share_in_hole([[0.999, 0], [0, -1.001], [0.6, 0.79], [0.6, 0.81]], "circle") == 0.5


def test_the_hole_of_infinity_is_in_its_loops_not_where_they_meet():
    inside = [[1, 0], [-1, 0], [1, 0.4], [-1, -0.4], [1.45, 0]]
    outside = [[0, 0], [0.1, 0], [-0.2, 0], [1, 0.6], [1.55, 0], [0, 1]]
    assert share_in_hole(inside, "infinity") == 1
    assert share_in_hole(outside, "infinity") == 0


def test_a_ray_through_a_corner_crosses_once():
    diamond = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    x = np.array([[0.0, 0.0], [-2.0, 0.0], [-0.5, 0.0], [-2.0, 1.0], [2.0, 0.0]])
    assert in_polygon(x, diamond).tolist() == [True, False, True, False, False]


def test_samples_between_the_clusters_are_counted():
    assert share_between(points("clusters")) < 1e-3  # 3.3 standard deviations away
    assert share_between(torch.tensor([[0.5, 9.0], [-0.99, 0.0], [1.0, 0.0], [-3.0, 0.0]])) == 0.5


def test_samples_of_a_model_can_be_counted():
    data = untwine.dataset("circle", count=64)
    model = untwine.build("vae", data, latent=2)
    assert 0 <= share_in_hole(model.sample(10), "circle") <= 1


@pytest.mark.parametrize("name", [*OUTLINES, "clusters", "cross"])
def test_points_are_vectors_with_a_gaussian_likelihood(name):
    data = untwine.dataset(name, count=50)
    assert data.shape == (2,) and len(data) == 50 and not data.in_unit_interval
    assert data.likelihood.name == "gaussian" and data.likelihood.params["squash"] is False
    assert untwine.plan("vae", name).network.name == "mlp"


@pytest.mark.parametrize("name", [*OUTLINES, "clusters", "cross"])
def test_the_seed_fixes_the_points(name):
    first, again, other = (untwine.dataset(name, count=50, seed=s).source.values for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert datasets[name].metadata["licence"]
