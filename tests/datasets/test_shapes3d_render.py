"""The rendered 3D Shapes: exact geometry, colours where they belong, the same bits always."""

import math

import numpy as np
import pytest
import torch

import untwine
from untwine.datasets.shapes3d import FACTORS as PUBLISHED
from untwine.datasets.shapes3d_render import FACTORS, VIEWS, Rooms, palette, weights
from untwine.errors import ParameterError
from untwine.renderers import room

FLOOR, WALL, OBJECT, SCALE, SHAPE, ORIENTATION = range(6)
STEP = 1e-3


@pytest.fixture(scope="module")
def geometry():
    """(8 scales, 4 shapes, 15 orientations, 4 colours, 32, 32) weights from 0 to 1."""
    return weights(32).view(8, 4, 15, 4, 32, 32) / 255


def index(*levels):
    return int(np.ravel_multi_index(levels, FACTORS.sizes))


def images(*rows, size=32):
    return Rooms(size).take(torch.tensor([index(*row) for row in rows]))


def inside(shape, point):
    """Whether points (..., 3) are in a solid, straight from what it is."""
    x, y, z = point.unbind(-1)
    across = x * x + y * y
    if shape == 0:
        return (x.abs() <= 0.5) & (y.abs() <= 0.5) & (z >= 0) & (z <= 1)
    if shape == 1:
        return (across <= 0.52**2) & (z >= 0) & (z <= 1.05)
    if shape == 2:
        return across + (z - 0.6) ** 2 <= 0.6**2
    return across + (z - z.clamp(0.42, 0.93)) ** 2 <= 0.42**2


@pytest.mark.parametrize("shape", range(4))
def test_a_ray_stops_where_it_first_enters_the_solid(shape):
    view = room.views(torch.tensor([0.3], dtype=torch.float64), 8)
    distance, normal = room.SOLIDS[shape](view.origin, view.direction)
    along = torch.arange(0, 8, STEP, dtype=torch.float64)
    hits = inside(shape, view.origin[..., None, :] + along[:, None] * view.direction[..., None, :])
    first = torch.where(hits.any(-1), hits.float().argmax(-1) * STEP, math.inf)
    touched = first.isfinite()
    assert touched.any() and (~touched).any()
    assert (distance[touched] <= first[touched] + 1e-9).all()
    assert (distance[touched] >= first[touched] - 2 * STEP).all()
    seen = distance.isfinite()
    assert torch.allclose(normal[seen].norm(dim=-1), torch.ones((), dtype=torch.float64))
    assert (room.dot(normal, view.direction)[seen] < 0).all()


def test_rays_that_are_left_out_meet_no_solid():
    view = room.views(torch.linspace(-0.5, 0.5, 3, dtype=torch.float64), 16)
    near = room.room(view).near
    for cast in room.SOLIDS:
        assert cast(view.origin / 1.25, view.direction)[0][:, ~near].isinf().all()


def test_the_grid_is_the_published_one():
    data = untwine.dataset("shapes3d-render", size=16)
    assert data.factors.sizes == (10, 10, 10, 8, 4, 15) and len(data) == 480_000
    assert data.factors.names == PUBLISHED.names
    assert data.factors.levels_at(np.array([1, 15, 60, 480]))[:, 2:].tolist() == [
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
    ]


def test_every_view_is_another_image(geometry):
    assert len(geometry.flatten(0, 2).flatten(1).unique(dim=0)) == VIEWS == 480


def test_larger_objects_cover_more(geometry):
    area = geometry[:, :, :, 2].sum((-1, -2))  # (8, 4, 15)
    assert (area.diff(dim=0) > 0).all()


def test_the_room_turns_alike_to_both_sides(geometry):
    """Opposite orientations are mirror images; only the light is not."""
    seen = geometry[:, :, :, 2] > 0
    assert torch.equal(seen, seen.flip(2).flip(-1))


def test_shadows_fall_on_the_floor_beside_the_object(geometry):
    floor = geometry[-1, 0, 0, 0]
    assert floor[floor > 0.3].min() < 0.75 * floor.max()


@pytest.mark.parametrize("factor", [FLOOR, WALL, OBJECT])
def test_a_hue_changes_its_own_pixels_alone(factor, geometry):
    row = [0, 3, 6, 5, 2, 4]
    other = [*row]
    other[factor] = 9
    first, second = images(row, other)
    changed = (first != second).any(0)
    weight = geometry[5, 2, 4, factor]
    assert not changed[weight == 0].any() and changed[weight > 0.05].all()


def test_colours_are_mixed_by_weight(geometry):
    hues = palette() / 255
    image = images([1, 2, 3, 0, 3, 7])[0]
    expected = torch.einsum("mhw,mc->chw", geometry[0, 3, 7], hues[[1, 2, 3, 10]])
    assert torch.allclose(image, expected, atol=1e-6)
    assert 0 <= image.min() and image.max() <= 1


def test_an_image_has_the_same_bits_alone_and_in_a_batch():
    data = Rooms(16)
    some = torch.randint(len(data), (50,), generator=torch.Generator().manual_seed(0))
    batch = data.take(some)
    assert all(torch.equal(batch[k], data.take(some[k : k + 1])[0]) for k in range(50))


def test_geometry_is_the_same_every_time():
    assert torch.equal(weights.__wrapped__(16), weights(16))


@pytest.mark.parametrize("size", [33, 64])
def test_every_size_shows_the_same_scene(size):
    rows = [4, 1, 7, 7, 1, 12], [0, 5, 3, 2, 0, 2]
    large = torch.nn.functional.interpolate(images(*rows, size=size), size=16, mode="area")
    assert (large - images(*rows, size=16)).abs().mean() < 0.03


def test_sizes_that_cannot_be_drawn_are_refused():
    with pytest.raises(ParameterError, match="from 16 to 128"):
        untwine.dataset("shapes3d-render", size=8)
