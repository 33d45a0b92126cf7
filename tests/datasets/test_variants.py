"""Colour, noisy and scream dSprites: what is random in them, and what is not."""

import time

import numpy as np
import pytest
import torch
from PIL import Image

import untwine
from untwine.data.cache import offline
from untwine.datasets._variants import random_crops
from untwine.errors import DataError, ParameterError
from untwine.renderers.painting import paint_fjord

VARIANTS = ["colour-dsprites", "noisy-dsprites", "scream-dsprites"]
every_variant = pytest.mark.parametrize("name", VARIANTS)
INDEX = np.arange(0, 737_280, 30_011)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


@pytest.fixture
def mask():
    return untwine.dataset("sprites").take(INDEX).bool().expand(-1, 3, -1, -1)


def drawn(name, seed=0, **settings):
    torch.manual_seed(seed)
    return untwine.dataset(name, **settings).take(INDEX)


def write_dsprites(root):
    """The published format, with a few of its images."""
    source = untwine.dataset("sprites")
    classes = np.concatenate([np.zeros((len(INDEX), 1), int), source.factors.levels_at(INDEX)], 1)
    images = source.take(INDEX).numpy()[:, 0].astype(np.uint8)
    np.savez_compressed(root / "d.npz", imgs=images, latents_classes=classes)
    return str(root / "d.npz")


@every_variant
def test_factors_are_those_of_the_sprites(name):
    data = untwine.dataset(name, size=32)
    assert data.shape == (3, 32, 32) and len(data) == 737_280
    assert data.factors == untwine.dataset("sprites").factors


@every_variant
def test_every_draw_is_new_and_a_seed_fixes_it(name):
    assert torch.equal(drawn(name), drawn(name))
    assert not torch.equal(drawn(name), drawn(name, seed=1))
    data = untwine.dataset(name)
    assert not torch.equal(data.take(INDEX), data.take(INDEX))


def test_a_coloured_sprite_has_one_bright_colour_on_black(mask):
    x = drawn("colour-dsprites")
    assert (x[~mask] == 0).all() and x[mask].min() >= 0.5 and x.max() <= 1
    assert all(len(image[c].unique()) == 2 for image in x for c in range(3))
    colours = x.amax((2, 3))
    assert colours.std() > 0.1 and (colours[:, 0] != colours[:, 1]).all()


def test_a_noisy_sprite_is_white_on_uniform_noise(mask):
    x = drawn("noisy-dsprites")
    assert (x[mask] == 1).all()
    noise = x[~mask]
    assert noise.mean() == pytest.approx(0.5, abs=0.01)
    assert noise.std() == pytest.approx(12**-0.5, abs=0.01)


def test_a_scream_sprite_shows_one_minus_its_background(mask):
    """With a painting of one colour, background and sprite add up to one in every channel."""
    x = drawn("scream-dsprites")
    assert x.min() >= 0 and x.max() <= 1
    plain = torch.full((200, 200, 3), 0.25)
    source = untwine.dataset("scream-dsprites").source
    flat = type(source)(source.sprites, plain).take(torch.from_numpy(INDEX))
    ground = flat[:, :, 0, 0][..., None, None].expand_as(flat)
    assert ((ground >= 0.125) & (ground <= 0.625)).all()
    assert torch.equal(flat[~mask], ground[~mask])
    assert torch.allclose(flat[mask], 1 - ground[mask])


def test_crops_are_pieces_of_the_painting_at_uniform_places():
    painting = torch.arange(20 * 30 * 3, dtype=torch.float32).view(20, 30, 3)
    torch.manual_seed(0)
    pieces = random_crops(painting, 8, 4000)
    first = pieces[:, 0, 0, 0].long() // 3
    rows, columns = first // 30, first % 30
    assert torch.equal(pieces[5], painting[rows[5] :, columns[5] :][:8, :8].permute(2, 0, 1))
    assert rows.unique().tolist() == list(range(13)) and columns.unique().tolist() == list(
        range(23)
    )
    assert rows.float().mean() == pytest.approx(6, abs=0.3)


def test_the_drawn_painting_is_the_same_each_time_and_full_of_colour():
    picture = paint_fjord(64)
    assert picture.shape == (274, 350, 3) and np.array_equal(picture, paint_fjord(64))
    assert picture[:80, :, 0].mean() > 2 * picture[:80, :, 2].mean()  # a red sky
    assert picture[180:, 200:, 2].mean() > picture[180:, 200:, 0].mean()  # over blue water
    assert picture.std(axis=(0, 1)).min() > 25


def test_a_picture_in_the_cache_is_used_and_known_by_its_content(tmp_path):
    drawn_one = untwine.dataset("scream-dsprites")
    (tmp_path / "cache").mkdir(exist_ok=True)
    Image.new("RGB", (300, 400), (255, 0, 0)).save(tmp_path / "cache" / "the_scream.jpg")
    real = untwine.dataset("scream-dsprites", size=32)
    assert real.source.painting.shape == (137, 103, 3)
    assert real.digest != drawn_one.digest
    with pytest.raises(DataError, match="not what this run was made with"):
        untwine.dataset("scream-dsprites", digest=drawn_one.digest)


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [((40, 800), "too narrow"), (None, "not a picture; choose .*; name another")],
)
def test_odd_paintings_are_refused(tmp_path, picture, sentence):
    path = tmp_path / "p.png"
    Image.new("RGB", picture).save(path) if picture else path.write_bytes(b"nothing")
    with pytest.raises(DataError, match=sentence):
        untwine.dataset("scream-dsprites", painting=str(path))
    with pytest.raises(DataError, match="there is no picture"):
        untwine.dataset("scream-dsprites", painting=str(tmp_path / "none.png"))


@every_variant
def test_the_published_file_gives_the_same_images_as_the_drawn_sprites(name, tmp_path):
    path = write_dsprites(tmp_path)
    data = untwine.dataset(name, of="dsprites", path=path)
    assert data.digest and len(data) == len(INDEX)
    torch.manual_seed(0)
    assert torch.equal(data.take(np.arange(len(INDEX))), drawn(name))


@every_variant
def test_settings_that_do_not_go_together_are_refused(name, tmp_path):
    with pytest.raises(ParameterError, match="must be 64 with of=dsprites"):
        untwine.dataset(name, of="dsprites", size=32)
    with pytest.raises(ParameterError, match="write of=dsprites"):
        untwine.dataset(name, path=str(tmp_path))


def test_the_real_painting_is_fitted_as_in_the_study(shared):
    path = shared("data/the_scream.jpg")
    data = untwine.dataset("scream-dsprites", painting=str(path))
    assert data.source.painting.shape == (274, 215, 3)
    assert data.source.painting.std() > 0.1


@pytest.mark.parametrize("name", VARIANTS[1:])
def test_drawing_is_much_faster_than_training(name):
    data = untwine.dataset(name)
    model = untwine.build("vae", data)
    index = torch.arange(64) * 1000

    def seconds(work):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    draw = min(seconds(lambda: data.source.take(index)) for _ in range(5))
    step = seconds(lambda: untwine.fit(model, data, steps=3, batch=64, quiet=True)) / 3
    assert step > 10 * draw


def test_the_missing_file_of_dsprites_is_asked_for_in_the_variants_own_name(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    with offline(), pytest.raises(DataError, match=r"--set colour-dsprites\.path="):
        untwine.dataset("colour-dsprites(of=dsprites)")
