"""MNIST and what is made of digits: formats, proportions, colours, series."""

import gzip
import itertools
import struct

import numpy as np
import pytest
import torch

import untwine
from untwine.datasets.coloured_mnist import COLOURS
from untwine.datasets.digit_series import LENGTH, SERIES, digit_stream, window
from untwine.datasets.fashion_mnist import FILES as FASHION
from untwine.datasets.mnist import FILES
from untwine.datasets.mnist_01 import balance_digits
from untwine.errors import DataError, ParameterError
from untwine.tools.compute import derive_seed

CPU = torch.device("cpu")
COUNTS = {"train": 60, "t10k": 20}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def idx(values):
    return (
        bytes((0, 0, 8, values.ndim))
        + struct.pack(f">{values.ndim}I", *values.shape)
        + bytes(values.astype(np.uint8).ravel())
    )


def write_idx(root, packed=True):
    """The four files of a small set in the published format."""
    root.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for part, n in COUNTS.items():
        arrays = {
            f"{part}-images-idx3-ubyte": rng.integers(0, 256, (n, 28, 28)),
            f"{part}-labels-idx1-ubyte": np.arange(n) % 10,
        }
        for name, values in arrays.items():
            content = idx(values)
            file = root / (f"{name}.gz" if packed else name)
            file.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return root


@pytest.fixture
def small(tmp_path):
    return str(write_idx(tmp_path / "small"))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("packed", [True, False])
def test_the_published_format_is_read(tmp_path, name, packed):
    root = write_idx(tmp_path / "x", packed)
    data = untwine.dataset(name, path=str(root))
    rng = np.random.default_rng(0)
    assert np.allclose(data.take([0, 59])[:, 0] * 255, rng.integers(0, 256, (60, 28, 28))[[0, 59]])
    assert data.factors.sizes == (10,) and data.shape == (1, 28, 28)
    assert (data.factors.levels_at(np.arange(60))[:, 0] == np.arange(60) % 10).all()


def test_packed_and_plain_files_are_the_same_data(tmp_path):
    packed, plain = (write_idx(tmp_path / str(kind), kind) for kind in (True, False))
    first, second = (untwine.dataset("mnist", path=str(root)) for root in (packed, plain))
    assert first.digest == second.digest != ""
    assert len(list((tmp_path / "cache").glob("mnist-*"))) == 1
    with pytest.raises(DataError, match="not what this run was made with"):
        untwine.dataset("mnist", path=str(packed), digest="0" * 16)


def test_splits_are_the_published_parts_and_padding_is_black(small):
    parts = {s: untwine.dataset("mnist", path=small, split=s) for s in ("train", "test", "all")}
    assert [len(data) for data in parts.values()] == [60, 20, 80]
    both = torch.cat([parts["train"].take(range(60)), parts["test"].take(range(20))])
    assert torch.equal(parts["all"].take(range(80)), both)
    padded = untwine.dataset("mnist", path=small, pad=2).take(range(60))
    assert padded.shape == (60, 1, 32, 32) and (padded > 0).sum() == (both[:60] > 0).sum()
    assert torch.equal(padded[..., 2:-2, 2:-2], both[:60])


def test_files_in_the_cache_must_be_the_published_ones(tmp_path):
    write_idx(tmp_path / "cache")
    (tmp_path / "cache").rename(tmp_path / "mnist")
    (tmp_path / "cache").mkdir()
    (tmp_path / "mnist").rename(tmp_path / "cache" / "mnist")
    with pytest.raises(DataError, match="not the published file of mnist"):
        untwine.dataset("mnist")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("images-idx3", b"", "not an IDX file"),
        ("images-idx3", idx(np.zeros(60)), "not an IDX file of bytes with 3 dimensions"),
        ("images-idx3", idx(np.zeros((60, 28, 28)))[:-5], "cut short"),
        ("images-idx3", idx(np.zeros((59, 28, 28))), "59 images but .* 60 labels"),
        ("labels-idx1", idx(np.full(60, 10)), "has the label 10"),
        ("labels-idx1", gzip.compress(idx(np.zeros(60)), mtime=0)[:-9], "is damaged"),
    ],
)
def test_odd_files_are_refused_in_a_sentence(small, tmp_path, name, content, sentence):
    (tmp_path / "small" / f"train-{name}-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        untwine.dataset("mnist", path=small)


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no train-images-idx3-ubyte or .*gz in"):
        untwine.dataset("mnist", path=str(tmp_path))
    with pytest.raises(DataError, match="there is no folder at"):
        untwine.dataset("mnist", path=str(tmp_path / "nowhere"))


def test_missing_files_name_the_stand_in_and_never_use_it(monkeypatch):
    def refuse(*args):
        raise OSError("no network")

    monkeypatch.setattr("untwine.data.files._transfer", refuse)
    for name in ("mnist", "coloured-mnist", "mnist-01", "digit-series"):
        with pytest.raises(DataError, match=r"no network.*mnist\.path=FOLDER.*stand-in digits"):
            untwine.dataset(name)


def test_the_whole_of_mnist_is_read(shared):
    root = str(shared("data/mnist"))
    train, test = (untwine.dataset("mnist", path=root, split=s) for s in ("train", "test"))
    assert (len(train), len(test)) == (60_000, 10_000)
    counts = np.bincount(train.factors.levels_at(np.arange(60_000))[:, 0])
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert train.factors.levels_at(np.arange(5))[:, 0].tolist() == [5, 0, 4, 1, 9]
    assert train.source.values.double().mean() / 255 == pytest.approx(0.1306604762738429)


def test_the_published_checksums_are_those_of_the_real_files(shared, monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mnist").symlink_to(shared("data/mnist"))
    assert len(untwine.dataset("mnist", split="all")) == 70_000
    assert untwine.dataset("mnist").digest == ""


def test_every_file_has_a_checksum_and_a_place_of_its_own():
    files = (*FILES, *FASHION)
    assert len({file.name for file in files}) == len({file.hash for file in files}) == 8
    assert all(file.url.endswith(file.cache_path.name) for file in files)


def test_digits_are_real_and_need_no_file():
    data = untwine.dataset("digits", split="all")
    assert len(data) == 1797 and data.shape == (1, 28, 28)
    x = data.take(range(1797))[:, 0]
    assert x[:, :4].max() == x[:, -4:].max() == x[:, :, :4].max() == x[:, :, -4:].max() == 0
    assert x.max() == 1 and 0.1 < x.mean() < 0.2
    classes = data.factors.levels_at(np.arange(1797))[:, 0]
    assert np.bincount(classes).min() > 170
    assert untwine.dataset("digits", size=32).shape == (1, 32, 32)


def test_digits_can_be_told_apart_after_enlarging():
    from sklearn.neighbors import KNeighborsClassifier

    train, test = (untwine.dataset("digits", split=s) for s in ("train", "test"))
    rows = [
        (d.take(range(len(d))).flatten(1), d.factors.levels_at(np.arange(len(d)))[:, 0])
        for d in (train, test)
    ]
    assert (len(train), len(test)) == (1500, 297)
    assert KNeighborsClassifier(1).fit(*rows[0]).score(*rows[1]) > 0.93


@pytest.mark.parametrize("share", [0.5, 0.4, 0.25, 0.2, 0.9, 0.0, 1.0])
def test_zeros_and_ones_come_in_the_asked_proportion(share):
    data = untwine.dataset("mnist-01", of="digits", zeros=share)
    digit = data.factors.levels_at(np.arange(len(data)))[:, 0]
    assert (digit == 0).mean() == pytest.approx(share, abs=1e-3)
    assert {*digit} <= {0, 1} and data.factors.sizes == (2,)


def test_repetition_loses_no_image_and_is_even():
    digit = np.array([0] * 10 + [1] * 25 + [5] * 7)
    for share in (0.5, 0.2, 0.7):
        times = np.bincount(balance_digits(digit, share), minlength=42)
        assert (times[:35] > 0).all() and (times[35:] == 0).all()
        assert np.ptp(times[:10]) <= 1 and np.ptp(times[10:35]) <= 1


def test_a_proportion_that_takes_too_many_images_is_refused():
    with pytest.raises(ParameterError, match="choose 0, 1 or a share further from them"):
        untwine.dataset("mnist-01", of="digits", zeros=1e-9)


def test_images_of_a_choice_are_those_of_the_digits():
    base = untwine.dataset("digits")
    data = untwine.dataset("mnist-01(of=digits)")
    digit = base.factors.levels_at(np.arange(len(base)))[:, 0]
    index = balance_digits(digit, 0.5)
    assert torch.equal(data.take(range(len(data))), base.take(index))


def test_each_digit_has_a_colour_and_the_background_is_black():
    base, data = untwine.dataset("digits"), untwine.dataset("coloured-mnist(of=digits)")
    grey, x = base.take(range(200)), data.take(range(200))
    levels = data.factors.levels_at(np.arange(200))
    assert data.shape == (3, 28, 28) and data.factors.names == ("digit", "colour")
    assert (levels[:, 0] == levels[:, 1]).all()
    palette = torch.tensor(COLOURS)[levels[:, 1]] / 255
    assert torch.allclose(x, grey * palette[:, :, None, None])
    assert x[(grey == 0).expand_as(x)].max() == 0


def test_the_colours_of_the_paper():
    palette = torch.tensor(COLOURS).double()
    assert COLOURS[5] == (255, 255, 0) and len({*COLOURS}) == 10
    far = torch.cdist(palette, palette) + 1e9 * torch.eye(10)
    assert far[5].argmin() == 8 and far.min() > 80  # orange is the nearest to yellow


def test_all_digits_in_one_colour():
    data = untwine.dataset("coloured-mnist", of="digits(split=test)", colours="single")
    assert (data.factors.levels_at(np.arange(297))[:, 1] == 5).all()
    assert data.take(range(297))[:, 2].max() == 0  # yellow has no blue
    red = untwine.dataset("coloured-mnist", of="digits", colours="single", colour=0)
    assert red.take(range(50))[:, 1:].max() == 0


@pytest.mark.parametrize("name", ["mnist-01", "coloured-mnist", "digit-series"])
def test_data_without_digits_is_refused(name):
    with pytest.raises(DataError, match=r"sprites\(size=16\) has no factor named digit"):
        untwine.dataset(name, of="sprites(size=16)")


@pytest.mark.parametrize("name", ["mnist-01", "coloured-mnist", "digit-series"])
def test_files_behind_the_digits_count_by_their_content(small, name):
    of = f"mnist(path={small})"
    found = untwine.dataset(name, of=of).digest
    assert found == untwine.dataset(of).digest != ""
    with pytest.raises(DataError, match="not what this run was made with"):
        untwine.dataset(name, of=of, digest="0" * 16)


def series(kind, length=LENGTH):
    return list(itertools.islice(SERIES[kind](), length))


def test_the_first_numbers_of_each_series():
    assert series("even", 5) == [0, 2, 4, 6, 8]
    assert series("odd", 5) == [1, 3, 5, 7, 9]
    assert series("fibonacci", 10) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert series("primes", 8) == [2, 3, 5, 7, 11, 13, 17, 19] and series("primes")[-1] == 1619


@pytest.mark.parametrize("kind", ["even", "odd", "fibonacci", "primes"])
def test_a_stream_is_the_digits_of_the_numbers(kind):
    text = "".join(map(str, series(kind)))[:LENGTH]
    assert "".join(map(str, digit_stream(kind))) == text
    around = window(digit_stream(kind), LENGTH - 3, 6)
    assert "".join(map(str, around)) == text[-3:] + text[:3]


@pytest.mark.parametrize("kind", ["even", "primes"])
def test_batches_spell_a_window_of_the_series(kind):
    data = untwine.dataset("digit-series", of="digits", kind=kind)
    ring = "".join(map(str, digit_stream(kind))) * 2
    starts = set()
    for step in range(5):
        index = data.batches(128, 3, CPU).at(step)
        spelt = "".join(map(str, data.factors.levels_at(index.numpy())[:, 0]))
        assert spelt in ring
        starts.add(ring.index(spelt))
    assert len(starts) == 5
    assert torch.equal(data.batches(128, 3, CPU).at(4), index)
    assert not torch.equal(data.batches(128, 4, CPU).at(4), index)


def test_each_digit_is_shown_by_many_images():
    data = untwine.dataset("digit-series", of="digits")
    order = data.batches(128, derive_seed(0, 0), CPU)
    seen = torch.cat([order.at(step) for step in range(200)]).unique()
    assert len(seen) > 0.99 * len(data)


def test_a_series_needs_all_its_digits():
    with pytest.raises(DataError, match="no image of the digit"):
        untwine.dataset("digit-series", of="mnist-01(of=digits)")


@pytest.mark.parametrize(
    "text",
    ["digits", "mnist-01(of=digits)", "coloured-mnist(of=digits)", "digit-series(of=digits)"],
)
def test_a_model_trains_on_it(text):
    data = untwine.dataset(text)
    model = untwine.build("vae", data, width=4, hidden=8)
    assert untwine.fit(model, data, steps=2, batch=4, quiet=True)[-1]["step"] == 2
