"""The regenerated dSprites, pixel for pixel."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.datasets.sprites import FACTORS, MIN_IMAGES_TO_COMPILE, PLACES, Sprites, outlines
from untwine.renderers import polygons


def inside(outline, x, y):
    """Even-odd rule by one ray to the left, with whole numbers: ties to left and bottom edges."""
    parity = np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    for (x0, y0), (x1, y1) in zip(outline, np.roll(outline, -1, 0), strict=True):
        cross = (x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)
        parity ^= ((y0 < y) != (y1 < y)) & (cross * (1 if y1 > y0 else -1) <= 0)
    return parity


def drawn_slowly(index, size):
    """One sprite, edge by edge, straight from the definition."""
    shape, scale, orientation, x, y = FACTORS.levels_at(np.array([index]))[0]
    angle = np.linspace(0, 2 * np.pi, 40)[orientation]
    c, s = np.cos(angle), np.sin(angle)
    corners = (
        outlines()[shape].numpy() * np.linspace(0.5, 1, 6)[scale] @ np.array([[c, -s], [s, c]])
    )
    centre = 16 + 32 * np.linspace(0, 1, 32)[[x, y]]
    outline = np.rint((corners + centre) * size / 64 * 256).astype(int)
    middles = 256 * np.arange(size) + 128  # of the pixels
    return inside(outline, middles[None], middles[:, None])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 737_279), st.sampled_from([16, 32, 33, 64]))
def test_fast_drawing_equals_the_definition(index, size):
    image = Sprites(size).take(torch.tensor([index]))[0, 0].numpy()
    assert (image == drawn_slowly(index, size)).all()


def compiled(size):
    """A source that has drawn enough images to change over to the compiled loop."""
    source = Sprites(size)
    source.n_drawn = MIN_IMAGES_TO_COMPILE
    return source


positions = st.lists(st.integers(-737_280, 737_279), max_size=8)


@settings(max_examples=60, deadline=None)
@given(positions, st.integers(16, 128))
def test_the_compiled_loop_draws_the_same_images(positions, size):
    index = torch.tensor(positions, dtype=torch.long)
    plain = Sprites(size).take(index)
    assert plain.shape == (len(index), 1, size, size)
    assert torch.equal(compiled(size).take(index), plain)


@pytest.mark.parametrize("size", [16, 33, 64])
def test_the_compiled_loop_draws_every_pose_the_same(size):
    """All shapes, scales and orientations, at places that differ from pose to pose."""
    index = torch.arange(720) * PLACES + torch.arange(720) * 37 % PLACES
    assert torch.equal(compiled(size).take(index), Sprites(size).take(index))


@pytest.mark.parametrize("make", [Sprites, compiled])
@pytest.mark.parametrize("position", [737_280, -737_281])
def test_there_is_nothing_beyond_the_grid(make, position):
    with pytest.raises(IndexError):
        make(16).take(torch.tensor([position]))


def test_drawing_changes_over_after_many_images(monkeypatch):
    """Short trainings do not wait until the compiled loop is loaded."""
    counts = []
    monkeypatch.setattr(polygons, "fill_polygons", lambda *a: counts.append(len(a[2])))
    monkeypatch.setitem(Sprites.take.__globals__, "MIN_IMAGES_TO_COMPILE", 16)
    source = Sprites(16)
    for _ in range(4):
        source.take(torch.arange(8))
    assert counts == [8, 8]


def test_every_real_tile_is_an_image_of_the_grid(shared):
    """60 tiles of the published set; each must be found, bit for bit."""
    packed = np.load(shared("data/dsprites-tiles/tiles.npz"))["imgs"]
    missing = {tile.tobytes() for tile in packed}
    assert len(missing) == 60
    source = compiled(64)
    for index in torch.arange(len(source)).split(128):
        rows = np.packbits(source.take(index)[:, 0].numpy() > 0, axis=-1)
        missing -= {image.tobytes() for image in rows}
    assert not missing


def test_factors_mean_what_they_say(tiny):
    data = untwine.dataset("sprites")
    assert data.factors.sizes == (3, 6, 40, 32, 32)

    def image(**levels):
        values = [levels.get(name, 0) for name in ("shape", "scale", "turn", "x", "y")]
        return data.take([np.ravel_multi_index(values, data.factors.sizes)])[0, 0]

    def centre(picture):
        return [place.float().mean().item() for place in picture.nonzero(as_tuple=True)]

    assert centre(image(y=31))[0] - centre(image())[0] == pytest.approx(32, abs=0.5)
    assert centre(image(x=31))[1] - centre(image())[1] == pytest.approx(32, abs=0.5)
    assert image(scale=5).sum().item() == pytest.approx(4 * image().sum().item(), rel=0.15)
    assert torch.equal(image(shape=2, turn=0), image(shape=2, turn=39))
    ellipse = image(shape=1, scale=5).nonzero().numpy()
    assert np.ptp(ellipse[:, 1]) > np.ptp(ellipse[:, 0])


def test_a_quarter_turn_is_counter_clockwise_on_the_screen():
    """The lobes of an upright heart are at its top; turned, they are at its left."""
    data = untwine.dataset("sprites", size=128)
    index = [np.ravel_multi_index((2, 5, turn, 16, 16), data.factors.sizes) for turn in (0, 10)]
    upright, turned = data.take(index)[:, 0].numpy()
    rows, columns = upright.sum(1), turned.sum(0)
    assert rows.argmax() < np.flatnonzero(rows).mean()
    assert columns.argmax() < np.flatnonzero(columns).mean()


@pytest.mark.parametrize("size", [15, 129])
def test_other_sizes_are_refused(size):
    with pytest.raises(untwine.ParameterError, match="16 to 128"):
        untwine.dataset("sprites", size=size)
