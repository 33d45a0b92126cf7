"""Pictures: grids, PNG and data URLs."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from untwine.tools.images import data_url, encode_png, image_grid, sheet_png, tiles_png, to_bytes


def decode(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def random_images(*shape):
    return np.random.default_rng(0).random(shape)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_grids_take_any_number_of_channels(channels):
    sheet = image_grid(np.random.default_rng(0).random((2, 3, channels, 5, 7)))
    assert sheet.shape == (12, 25, 4 if channels == 4 else 3)
    assert encode_png(sheet).startswith(b"\x89PNG")


def test_grid_places_images_row_by_row():
    images = np.zeros((2, 2, 1, 2, 2))
    images[1, 0] = 1
    sheet = image_grid(images, gap=0)[..., 0]
    assert (sheet == [[0, 0, 0, 0], [0, 0, 0, 0], [255, 255, 0, 0], [255, 255, 0, 0]]).all()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (5, 7, 4)])
def test_a_picture_survives_png(shape, fast):
    picture = to_bytes(random_images(*shape))
    assert (decode(encode_png(picture, fast=fast)) == picture).all()


def test_tiles_touch_and_a_grid_has_gaps():
    images = random_images(2, 3, 3, 5, 7)
    tiles, grid = decode(tiles_png(to_bytes(images))), image_grid(images)
    assert tiles.shape == (10, 21, 3) and grid.shape == (12, 25, 3)
    assert (tiles[5:, 14:] == grid[7:, 18:]).all() and (grid[5:7] == 128).all()
    assert (tiles == image_grid(images, gap=0)).all()


def test_two_channels_are_red_and_green():
    images = random_images(1, 1, 2, 4, 4)
    picture = decode(tiles_png(to_bytes(images)))
    assert (picture[..., :2] == to_bytes(images)[0, 0].transpose(1, 2, 0)).all()
    assert not picture[..., 2].any()


def test_a_sheet_is_padded_with_black():
    picture = decode(sheet_png(np.full((3, 1, 2, 2), 200, np.uint8), columns=2))
    assert picture.shape == (4, 4)
    assert (picture[:2] == 200).all() and not picture[2:, 2:].any()


def test_numbers_outside_the_range_are_clipped():
    assert to_bytes(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan])).tolist() == [
        0,
        0,
        128,
        255,
        255,
        0,
    ]


def test_a_data_url_contains_the_picture():
    png = encode_png(np.zeros((2, 2), np.uint8))
    kind, _, content = data_url(png).partition(",")
    assert kind == "data:image/png;base64" and base64.b64decode(content) == png
