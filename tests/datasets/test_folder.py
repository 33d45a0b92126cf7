"""Folders of pictures: how they become square, their classes, their names, new ones."""

import hashlib
import os
import pathlib

import numpy as np
import pytest
from PIL import Image

import untwine
from untwine.errors import DataError, ParameterError
from untwine.runs.describe import training_notes
from untwine.runs.finding import open_trained

SMALL = {"network": "mlp", "latent": 2, "steps": 2, "batch": 4, "quiet": True}


def draw(folder, count=6, shape=(12, 20, 3), start=0):
    """Pictures that no version of Pillow writes otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(start, start + count):
        pixels = np.random.default_rng(number).integers(0, 256, shape).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02d}.bmp")
    return str(folder)


@pytest.fixture
def photos(tmp_path):
    return draw(tmp_path / "photos")


def test_defaults_have_the_hash_and_the_bits_of_version_0_1(photos):
    spec = untwine.plan("vae", photos, size=8)
    assert spec.hash == "a52e0b9a6123"
    pixels = untwine.dataset(photos, size=8).source.values.numpy()
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:12] == "4ad672570675"


def a_picture(folder, **settings):
    """A wide picture, white with a black centre, as the model sees it."""
    picture = Image.new("L", (32, 16), 255)
    picture.paste(0, (12, 4, 20, 12))
    picture.save(folder / "wide.png")
    return untwine.dataset(str(folder), size=8, **settings).take([0])[0, 0]


def test_pictures_are_squashed_cropped_or_padded(tmp_path):
    squashed = a_picture(tmp_path)
    assert (squashed == 0).sum() == 8 and squashed[2:6, 3:5].max() == 0  # half as wide
    cropped = a_picture(tmp_path, fit="crop")
    assert (cropped == 0).sum() == 16 and cropped[2:6, 2:6].max() == 0  # still a square
    padded = a_picture(tmp_path, fit="pad")
    assert padded[[0, 1, 6, 7]].max() == 0 and padded[2:6, 0].min() == 1


def test_tall_pictures_and_transparent_ones_are_padded_too(tmp_path):
    Image.new("RGBA", (5, 40), (255, 255, 255, 255)).save(tmp_path / "tall.png")
    x = untwine.dataset(str(tmp_path), size=8, fit="pad", channels=4).take([0])[0]
    assert x[:, :, 3].min() == 1 and x[:, :, [0, 7]].max() == 0


@pytest.mark.parametrize("name", ["box", "nearest", "bilinear", "hamming", "bicubic", "lanczos"])
def test_the_filter_is_pillows(name, photos):
    data = untwine.dataset(photos, size=8, filter=name)
    with Image.open(f"{photos}/00.bmp") as picture:
        expected = picture.resize((8, 8), Image.Resampling[name.upper()], reducing_gap=2.0)
    assert np.array_equal(data.source.values[0].numpy(), np.asarray(expected))
    assert data.preparation["resize"] == name


def test_what_cannot_be_done_is_refused(photos):
    with pytest.raises(ParameterError, match="fit=crop needs the size of the square"):
        untwine.dataset(photos, fit="crop")
    with pytest.raises(ParameterError, match='"squash" or "crop" or "pad"'):
        untwine.dataset(photos, size=8, fit="stretch")
    with pytest.raises(ParameterError, match="lanczos"):
        untwine.dataset(photos, size=8, filter="sinc")


def test_names_that_are_not_utf_8_are_shown_with_their_bytes(photos):
    pathlib.Path(photos, "00.bmp").rename(pathlib.Path(photos, os.fsdecode(b"\xff.bmp")))
    assert untwine.dataset(photos).example_names[-1] == r"\xff.bmp"


def test_a_folder_whose_name_is_not_utf_8_has_no_runs(photos, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.rename(photos, path)
    assert len(untwine.dataset(path)) == 6
    with pytest.raises(DataError, match=r"/\\xff is not UTF-8; rename it"):
        untwine.plan("vae", path)


def test_a_file_of_holes_is_refused_before_it_is_read(photos, tmp_path):
    pipe, large = pathlib.Path(photos, "pipe.png"), pathlib.Path(photos, "large.png")
    os.mkfifo(pipe)
    assert len(untwine.dataset(photos)) == 6
    for path in (large, tmp_path / "x.npy", tmp_path / "x.csv"):
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
        with pytest.raises(DataError, match="nearly all of them holes"):
            untwine.dataset(photos if path is large else str(path))


def test_pictures_of_modes_that_cannot_be_converted_are_named(photos):
    Image.new("LAB", (20, 12)).save(pathlib.Path(photos, "lab.tiff"))
    with pytest.raises(DataError, match=r"lab\.tiff: has pixels of mode LAB"):
        untwine.dataset(photos, channels=1)


def test_sub_folders_are_classes_on_request(tmp_path, capsys):
    for name, count in (("dog", 3), ("cat", 2)):
        draw(tmp_path / "pets" / name / "deep", count)
    pets = str(tmp_path / "pets")
    assert untwine.dataset(pets).factors is None
    data = untwine.dataset(pets, labels="folders")
    assert data.factors.names == ("class",) and data.factors.unordered == ("class",)
    assert data.factors.level_names == {"class": ("cat", "dog")}
    assert data.factors.levels_at(np.arange(5))[:, 0].tolist() == [0, 0, 1, 1, 1]
    assert data.example_names[0] == "cat/deep/00.bmp"
    assert untwine.plan("vae", pets).hash != untwine.plan("vae", pets, labels="folders").hash
    spec = untwine.plan("vae", pets)
    notes = training_notes(spec, untwine.dataset(pets), chosen=False)
    assert notes[0].startswith("likelihood: bernoulli, the default for images")
    assert notes[1] == "2 sub-folders; --set folder.labels=folders makes them labels"
    assert training_notes(spec, data, chosen=True) == []
    draw(tmp_path / "pets", 1, start=7)
    with pytest.raises(DataError, match=r"1 pictures in .* lie in none .* such as 07.bmp"):
        untwine.dataset(pets, labels="folders")


def test_new_pictures_are_prepared_as_those_of_the_model(tmp_path, capsys):
    for name in ("cat", "dog"):
        draw(tmp_path / "pets" / name)
    settings = {"size": 8, "fit": "crop", "filter": "lanczos", "labels": "folders"}
    trained = untwine.train_run(
        "vae", str(tmp_path / "pets"), tmp_path / "runs", **settings, **SMALL
    )
    model = untwine.load(trained.model.save(tmp_path / "model"))
    assert model.card.preparation["aspect"] == "crop"
    new = draw(tmp_path / "new", 3, (30, 20), start=20)  # grey, without classes
    options = {"size": 8, "fit": "crop", "filter": "lanczos", "channels": 3}
    expected = trained.model.encode(untwine.dataset(new, **options))
    places = (
        untwine.open_run(trained.path, data=new).data,
        open_trained(str(tmp_path / "model"), data=new).open_data(),
        new,
    )
    for place in places:
        table = untwine.codes(model, place)
        assert np.allclose(table[["z0", "z1"]], expected, atol=1e-6)
        assert list(table["example"]) == ["20.bmp", "21.bmp", "22.bmp"]
    assert np.array_equal(model.encode(new), expected)
    assert "has no sub-folders, so its pictures have no labels" in capsys.readouterr().err


def test_the_report_names_the_pictures_it_shows(photos, tmp_path):
    trained = untwine.train_run("vae", photos, tmp_path / "runs", size=8, **SMALL)
    page = untwine.write_report(trained.path, metrics=["elbo"], n_examples=6).read_text("utf-8")
    assert "Which examples these are" in page and "03.bmp" in page
