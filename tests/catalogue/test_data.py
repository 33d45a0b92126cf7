"""What is known about data on this machine, and the pictures of it."""

import hashlib
import io
import os

import numpy as np
import pytest
from PIL import Image

import untwine
from untwine.catalogue import data
from untwine.catalogue.sheets import _base_levels, _factor_strip, _nearest, contact_sheet
from untwine.data.dataset import Dataset, Factors, Vectors
from untwine.data.files import File
from untwine.errors import DataError, UnknownNameError
from untwine.registry import datasets


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def placed(monkeypatch, tmp_path):
    """An entry `array` that needs one published file, which lies in the cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "mine.bin").write_bytes(b"mine")
    file = File("mine.bin", hash="md5:" + hashlib.md5(b"mine").hexdigest())
    monkeypatch.setattr(data, "files_of", lambda entry: (file,) if entry.name == "digits" else ())
    return folder / "mine.bin"


def picture(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_every_dataset_has_a_row():
    header, rows = data.overview()
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert list(table) == list(datasets)
    assert table["sprites"]["examples"] == "737,280 of 1x64x64"
    assert table["sprites"]["factors"].startswith("shape, scale")
    assert table["sprites"]["files"] == "needs none"
    assert table["mnist"]["files"] == table["mnist-01"]["files"] == "0 of 4 here"
    assert table["mnist"]["stand-in"] == "digits" and table["dsprites"]["stand-in"] == "sprites"
    assert table["array"]["files"] == "your own"


def test_stand_ins_exist_and_need_no_file():
    for name in datasets:
        standin = datasets[name].metadata.get("standin")
        assert standin is None or not list(data.required_files(data.choose_dataset(standin)))


def test_files_are_found_through_the_data_that_is_made_of_them():
    names = [
        name for name, _ in data.required_files(data.choose_dataset("coloured-mnist(of=mnist)"))
    ]
    assert names == ["mnist"] * 4
    assert not list(data.required_files(data.choose_dataset("coloured-mnist(of=digits)")))
    assert not list(data.required_files(data.choose_dataset("mnist(path=somewhere)")))


def test_a_file_of_one_variant_is_needed_for_that_alone(monkeypatch):
    files = File("a", only="split=test"), File("b", only="size=28"), File("c")
    monkeypatch.setattr(data, "files_of", lambda entry: files)
    assert [file.name for _, file in data.required_files(data.choose_dataset("digits"))] == [
        "b",
        "c",
    ]


def test_fetching_what_needs_no_files_does_nothing():
    assert data.fetch("digits") == []


def test_where_says_what_is_missing_and_what_was_decoded(tmp_path):
    rows = data.dataset_paths("mnist")
    assert rows[0] == ["cache", str(tmp_path / "cache")]
    assert [what for what, _ in rows] == ["cache", *["missing"] * 4]
    datasets.make(datasets.choose("digits"))
    assert ["decoded", str(tmp_path / "cache" / "digits-28-1")] in data.dataset_paths("digits")


def test_a_file_that_is_there_is_found_and_checked(placed):
    assert ["file", str(placed)] in data.dataset_paths("digits")
    assert data.fetch("digits") == [placed]
    assert data.check("digits")[0] == ["file", f"{placed} has the published checksum"]


def test_a_file_that_decayed_silently_is_noticed(placed):
    data.check("digits")
    before = placed.stat()
    placed.write_bytes(b"mind")
    os.utime(placed, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"mine\.bin is not the published file.*data fetch digits"):
        data.check("digits")


def test_checking_says_what_to_do_about_missing_files():
    with pytest.raises(
        DataError, match=r"not on this machine: write untwine data fetch mnist, or put"
    ):
        data.check("mnist")


def test_checking_counts_examples_and_factors():
    assert data.check("digits", ["split=test", "size=32"]) == [
        ["examples", "297 of 1x32x32"],
        ["factors", "digit 10"],
    ]
    with pytest.raises(UnknownNameError, match="no setting named 'sze'"):
        data.check("digits", ["sze=32"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"factors": Factors(("a",), (3,))}, "100 examples but 3 combinations"),
        ({"factors": Factors(("a",), (2,), np.full((100, 1), 2))}, "beyond their number"),
        ({"factors": Factors(("a",), (2,), np.zeros((99, 1), int))}, "factors of shape"),
        ({"groups": np.zeros(3)}, "100 examples but 3 groups"),
        ({"source": Vectors(100 * np.ones((100, 2)))}, r"outside \[0, 1\]"),
        ({"source": Vectors(np.full((100, 2), np.nan))}, "no numbers"),
        ({"source": Vectors(np.zeros((0, 2)))}, "has no examples"),
    ],
)
def test_data_that_does_not_fit_together_is_refused(monkeypatch, change, sentence):
    import torch

    source = Vectors(torch.zeros(100, 2))
    if "source" in change:
        source = Vectors(torch.from_numpy(change["source"].values))
    odd = Dataset(source, change.get("factors"), groups=change.get("groups"))
    monkeypatch.setattr(data, "load_dataset", lambda choice: odd)
    with pytest.raises(DataError, match=sentence):
        data.check("digits")


def test_a_sheet_shows_examples_and_a_row_for_each_factor():
    one, none = (
        picture(contact_sheet(untwine.from_arrays(np.zeros((60, 16, 16)), factors), "black"))
        for factors in (np.arange(60)[:, None] % 3, None)
    )
    assert one.shape[0] - none.shape[0] == 64 + 16  # a row of images and the gap below it
    assert (one == 0).all(-1).sum() > 51 * 64 * 64


def test_only_one_factor_changes_in_its_row():
    grid = Factors(("a", "b"), (3, 40))
    strip = _factor_strip(grid, 1, _base_levels(grid, np.random.default_rng(0)))
    levels = grid.levels_at(strip.index[0])
    assert (levels[:, 0] == 1).all() and levels[0, 1] == 0 and levels[-1, 1] == 39
    assert len(levels) == 12 and (np.diff(levels[:, 1]) > 0).all() and strip.label == "b (40)"


def test_rows_from_a_table_change_as_little_else_as_possible():
    table = np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1], [2, 1, 1]])
    index, pure = _nearest(table, 0, np.arange(4), np.array([0, 0, 0]))
    assert index.tolist() == [0, 1, 3] and not pure
    assert _nearest(table, 2, np.arange(1), np.array([0, 0, 0])) == (np.array([0]), True)
    assert (
        "others vary too"
        in _factor_strip(Factors(("a", "b", "c"), (3, 2, 2), table), 0, table[0]).label
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sheets_are_drawn_for_any_channels_and_few_images(channels):
    images = np.random.default_rng(0).integers(0, 255, (5, 20, 30, channels), dtype=np.uint8)
    assert picture(contact_sheet(untwine.from_arrays(images), "few")).shape[1] > 5 * 30


def test_the_same_seed_gives_the_same_sheet(tiny):
    assert contact_sheet(tiny, "x") == contact_sheet(tiny, "x") != contact_sheet(tiny, "x", seed=1)


def test_a_sheet_shows_a_batch_where_the_data_orders_them():
    from untwine.catalogue.sheets import _example_strip

    strip = _example_strip(untwine.dataset("digit-series(of=digits, kind=even)"), 0)
    assert strip.label == "one batch" and strip.index.shape == (4, 12)


def test_points_of_the_plane_are_plotted():
    rng = np.random.default_rng(0)
    for factors in (None, rng.integers(3, size=(90, 1))):
        points = untwine.from_arrays(rng.standard_normal((90, 2)), factors)
        assert picture(contact_sheet(points, "points")).shape == (600, 600, 3)


def test_columns_of_tables_are_shown_as_histograms(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    wide = picture(contact_sheet(untwine.from_arrays(rng.standard_normal((40, 80))), "wide"))
    few = picture(contact_sheet(untwine.from_arrays(rng.standard_normal((40, 3))), "few"))
    assert wide.shape[0] > 3 * few.shape[0] and few.std() > 10
    lines = [f"{rng.normal():.3f},{rng.normal():.3f},{rng.normal():.3f},{k % 2}" for k in range(50)]
    (tmp_path / "people.csv").write_text("\n".join(["height,age,weight,sex", *lines]))
    monkeypatch.chdir(tmp_path)
    assert data.preview("people.csv", ["table.factors=sex"]).name == "people.png"
    assert picture((tmp_path / "people.png").read_bytes()).std() > 10


def test_looking_writes_a_picture_named_after_the_data(tmp_path):
    assert data.preview("digits", ["size=32"]).name == "digits.png"
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"
    out = data.preview("mnist-01(of=digits)", out=tmp_path / "new" / "x.png")
    assert out == tmp_path / "new" / "x.png" and out.exists()


@pytest.mark.parametrize(
    "folder", ["smallnorb-0123456789abcdef-64", "digits-28-1", "digits-levels-0123456789abcdef"]
)
def test_decoded_copies_are_found_by_the_name_of_their_dataset(tmp_path, monkeypatch, folder):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    (tmp_path / folder).mkdir()
    (tmp_path / "digits-other.txt").touch()
    name = folder.partition("-")[0]
    assert ["decoded", str(tmp_path / folder)] in data.dataset_paths(name)
    assert len([row for row in data.dataset_paths(name) if row[0] == "decoded"]) == 1
