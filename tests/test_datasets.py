"""Contracts over all datasets, and your own files."""

from functools import partial
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image

import untwine
from untwine.data.cache import cache_directory
from untwine.data.dataset import Bits, Factors, Pixels, Shuffle
from untwine.data.in_memory import store
from untwine.data.opening import load_dataset
from untwine.errors import DataError, ParameterError
from untwine.registry import datasets
from untwine.settings import Settings
from untwine.spec import plan, resolve_model
from untwine.testing.datasets import DATASET_CHECKS

CPU = torch.device("cpu")
CACHE = cache_directory()  # with the files that this machine has
SPRITES = "sprites(size=16)"
SMALL = {  # how to make a small one of those that are made of others
    "mixed": {"first": SPRITES, "second": SPRITES},
    "grouped": {"of": SPRITES},
    "correlated": {"of": SPRITES},
    "held-out": {"of": SPRITES},
    "faces": {"count": 60},
    "table": {"factors": "kind"},
    "coloured-mnist": {"of": "digits"},
    "digit-series": {"of": "digits"},
    "mnist-01": {"of": "digits"},
}
SHARED = {"mnist": "data/mnist"}  # real files beside the project
every_dataset = pytest.mark.parametrize("name", list(datasets))


@pytest.fixture(scope="module")
def example(tmp_path_factory, shared):
    """A small instance of any dataset; without its files a test is skipped and names them."""
    made = {}

    def make(name, **settings):
        key = (name, *settings.items())
        if key not in made:
            with pytest.MonkeyPatch.context() as patch:
                made[key] = small(name, settings, tmp_path_factory, shared, patch)
        if isinstance(made[key], str):
            pytest.skip(made[key])
        return made[key]

    return make


def small(name, settings, folders, shared, patch):
    """The dataset, or which of its files is missing."""
    entry = datasets[name]
    files = entry.metadata.get("files", ())
    here = any((CACHE / file.name).exists() for file in files)
    patch.setenv("UNTWINE_DATA", str(CACHE if here else folders.mktemp("cache")))
    patch.setattr("urllib.request.urlopen", no_network)
    settings = {**SMALL.get(name, {}), **sizes(entry), **settings}
    if name in WRITERS:
        settings["path"] = str(WRITERS[name](folders.mktemp(name)))
    try:
        return load_dataset(datasets.choose(name, **settings))
    except DataError as error:
        if all(file.local_path for file in files):
            raise
        missing = str(error)
    if name not in SHARED:
        return missing
    return untwine.dataset(name, path=str(shared(SHARED[name])), **settings)


def sizes(entry):
    """The least size of those that can be drawn at any, and few examples where that can be said."""
    size = entry.parameters.get("size")
    least = {"size": int(size.range.least)} if size and size.range and size.range.least else {}
    return {**least, **({"count": 60} if "count" in entry.parameters else {})}


def no_network(*args, **kwargs):
    raise URLError("no network")


def write_folder(root):
    rng = np.random.default_rng(0)
    (root / "a").mkdir()
    for i in range(6):
        pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / ("a" if i % 2 else ".") / f"{i}.png")
    return root


def write_array(root):
    factors = np.stack(np.unravel_index(np.arange(24), (4, 6)), 1)
    images = np.random.default_rng(0).integers(0, 255, (24, 16, 16), dtype=np.uint8)
    names = np.array(["colour", "size"])
    np.savez(root / "data.npz", images=images, factors=factors, factor_names=names)
    return root / "data.npz"


def write_dsprites(root, n=50):
    """A file in the published format, with the pickled metadata that must stay unread."""
    rng = np.random.default_rng(0)
    index = np.sort(rng.choice(737_280, n, replace=False))
    source = untwine.dataset("sprites")
    images = source.take(index).numpy()[:, 0].astype(np.uint8)
    classes = np.concatenate([np.zeros((n, 1), int), source.factors.levels_at(index)], 1)
    np.savez_compressed(
        root / "dsprites.npz",
        imgs=images,
        latents_classes=classes,
        latents_values=classes.astype(float),
        metadata=np.array({"title": "dSprites"}, dtype=object),
    )
    return root / "dsprites.npz"


def write_table(root):
    rng = np.random.default_rng(0)
    lines = [",height,weight,kind"]
    lines += [f"row {i},{rng.normal()},{10 * rng.normal()},{'ab'[i % 2]}" for i in range(24)]
    (root / "data.csv").write_text("\n".join(lines))
    return root / "data.csv"


def write_memory(root):
    images = np.random.default_rng(0).integers(0, 255, (24, 16, 16), dtype=np.uint8)
    store(untwine.from_arrays(images, np.arange(24)[:, None] % 3), root / "data.npz")
    return root / "data.npz"


WRITERS = {
    "memory": write_memory,
    "table": write_table,
    "folder": write_folder,
    "array": write_array,
    "dsprites": write_dsprites,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


@every_dataset
@pytest.mark.parametrize("check", DATASET_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(name, check, example):
    check(name, partial(example, name))


def test_dsprites_file_gives_the_same_images_and_factors_as_the_regeneration(tmp_path):
    data = untwine.dataset("dsprites", path=str(write_dsprites(tmp_path)))
    source = untwine.dataset("sprites")
    levels = data.factors.levels_at(np.arange(len(data)))
    index = np.ravel_multi_index(levels.T, source.factors.sizes)
    assert torch.equal(data.take(np.arange(len(data))), source.take(index))
    again = untwine.dataset("dsprites", path=str(tmp_path / "dsprites.npz"))
    assert len(list((tmp_path / "cache").glob("dsprites-*/images.npy"))) == 1 and len(again) == 50


@pytest.mark.parametrize("content", [b"", b"not a zip"])
def test_dsprites_refuses_another_file(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"not an \.npy or \.npz file"):
        untwine.dataset("dsprites", path=str(tmp_path / "x.npz"))


def test_dsprites_without_network_says_where_to_put_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(DataError, match=r"put dsprites_.*npz into .*cache"):
        untwine.dataset("dsprites")


def test_bits_unpack_to_the_packed_images():
    images = np.random.default_rng(0).integers(0, 2, (5, 16, 24), dtype=np.uint8)
    source = Bits(torch.from_numpy(np.packbits(images, axis=-1)))
    assert source.shape == (1, 16, 24)
    assert torch.equal(source.take(torch.arange(5)), torch.from_numpy(images)[:, None].float())


def test_pixels_come_channels_last_in_memory():
    source = Pixels(torch.randint(0, 255, (4, 8, 8, 3), dtype=torch.uint8))
    assert source.take(torch.tensor([1, 3])).is_contiguous(memory_format=torch.channels_last)


def test_grid_index_and_factors_are_inverse():
    grid = Factors(("a", "b", "c"), (3, 4, 5))
    fixed = grid.sample_indices(100, np.random.default_rng(0), {1: 2})
    assert (grid.levels_at(fixed)[:, 1] == 2).all()
    assert len({*grid.levels_at(fixed)[:, 0]}) == 3


def test_table_draw_keeps_to_the_fixed_level():
    table = np.array([[0, 1], [1, 1], [0, 0]])
    factors = Factors(("a", "b"), (2, 2), table)
    assert set(factors.sample_indices(20, np.random.default_rng(0), {1: 1})) == {0, 1}
    with pytest.raises(DataError, match="no example has a = 1, b = 0"):
        factors.sample_indices(1, np.random.default_rng(0), {0: 1, 1: 0})


def test_every_example_comes_once_an_epoch_and_epochs_differ():
    order = Shuffle(10, 3, 0, CPU)
    epoch = torch.cat([order.at(step) for step in range(3)])
    assert len(epoch.unique()) == 9
    assert not torch.equal(epoch, torch.cat([order.at(step) for step in range(3, 6)]))
    assert torch.equal(Shuffle(10, 3, 0, CPU).at(4), order.at(4))


@pytest.mark.parametrize("batch", [0, 11])
def test_a_batch_larger_than_the_data_is_refused(batch):
    with pytest.raises(DataError, match="choose 1 to 10"):
        Shuffle(10, batch, 0, CPU)


def test_folder_reads_pictures_in_the_order_of_their_names(tmp_path):
    data = untwine.dataset(str(write_folder(tmp_path)))
    assert len(data) == 6 and data.shape == (3, 16, 16)


def test_folder_of_grey_pictures_has_one_channel(tmp_path):
    Image.new("L", (12, 10), 200).save(tmp_path / "a.png")
    data = untwine.dataset(str(tmp_path))
    assert data.shape == (1, 10, 12)
    assert data.take([0]).unique().item() == pytest.approx(200 / 255)


def test_folder_resizes_on_request(tmp_path):
    write_folder(tmp_path)
    Image.new("RGB", (40, 30)).save(tmp_path / "odd.png")
    with pytest.raises(DataError, match=r"size=64\n  odd.png: 40x30 pixels"):
        untwine.dataset(str(tmp_path))
    assert untwine.dataset(str(tmp_path), size=8).shape == (3, 8, 8)


def test_folder_names_unreadable_files_one_a_line_and_skips_them_on_request(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "broken.png").write_bytes(b"nothing")
    cut = (tmp_path / "0.png").read_bytes()[:60]
    (tmp_path / "cut.png").write_bytes(cut)
    with pytest.raises(DataError) as refusal:
        untwine.dataset(str(tmp_path))
    first, *lines = str(refusal.value).splitlines()
    assert first.startswith("2 of the files") and "skip=true" in first
    assert [line.split(":")[0].strip() for line in lines] == ["broken.png", "cut.png"]
    assert len(untwine.dataset(str(tmp_path), skip=True)) == 6


def test_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(DataError, match="no pictures"):
        untwine.dataset(str(tmp_path))


def test_folder_refuses_two_channels(tmp_path):
    with pytest.raises(ParameterError, match="0 or 1 or 3 or 4"):
        untwine.dataset("folder", path=str(tmp_path), channels=2)


def test_array_keeps_factors_and_their_names(tmp_path):
    data = untwine.dataset(str(write_array(tmp_path)))
    assert data.factors.names == ("colour", "size") and data.factors.sizes == (4, 6)


def test_vectors_take_a_gaussian_likelihood_and_a_fully_connected_network(tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).standard_normal((40, 5)))
    run = plan("vae", str(tmp_path / "v.npy"))
    assert (run.network.name, run.likelihood.name) == ("mlp", "gaussian")
    assert run.likelihood.params["squash"] is False


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"images": np.zeros((4, 8, 80), np.uint8)}, "look like series"),
        ({"images": np.full((4, 8, 8), 3.0)}, r"must lie in \[0, 1\]"),
        ({"images": np.zeros((4, 8, 8), np.int32)}, "bytes, booleans or floats"),
        ({"images": np.full((4, 8), np.nan)}, "finite numbers"),
        ({"pictures": np.zeros((4, 8, 8))}, "name the images 'images'"),
        ({"images": np.zeros((4, 8, 8)), "factors": np.zeros((3, 1), int)}, r"shape \(4, K\)"),
        ({"images": np.zeros((4, 8, 8)), "factors": np.zeros((4, 1))}, "integers from 0"),
        ({"images": np.zeros((4, 8, 8)), "groups": np.zeros(4)}, "groups must be 4 integers"),
        ({"images": np.zeros((4, 8, 8)), "factors": np.full((4, 1), -1)}, "integers from 0"),
        (
            {
                "images": np.zeros((4, 8, 8)),
                "factors": np.zeros((4, 1), int),
                "factor_names": np.array(["a", "b"]),
            },
            "1 factors but 2 names",
        ),
    ],
)
def test_odd_arrays_are_refused_in_a_sentence(tmp_path, arrays, sentence):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=sentence):
        untwine.dataset(str(tmp_path / "x.npz"))


def test_pickled_arrays_are_not_opened(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="an array of plain numbers"):
        untwine.dataset(str(tmp_path / "x.npy"))


def test_a_run_knows_its_files_by_content_not_by_place(tmp_path):
    first = plan("vae", str(write_array(tmp_path)))
    (tmp_path / "moved.npz").write_bytes((tmp_path / "data.npz").read_bytes())
    assert plan("vae", str(tmp_path / "moved.npz")).hash == first.hash
    np.savez(tmp_path / "data.npz", images=np.ones((24, 16, 16)))
    with pytest.raises(DataError, match="not what this run was made with"):
        datasets.make(first.data)


def test_sixteen_bits_become_eight(tmp_path):
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(values).save(tmp_path / "a.png")
    pixels = untwine.dataset(str(tmp_path)).take([0])[0, 0].numpy()
    assert np.abs(pixels - values / 65535).max() < 1 / 200


def test_transparent_pixels_show_black_or_stay_transparent_on_request(tmp_path):
    pixels = np.full((8, 8, 4), 200, np.uint8)
    pixels[:4, :, 3] = 0
    Image.fromarray(pixels, "RGBA").save(tmp_path / "a.png")
    colour = untwine.dataset(str(tmp_path)).take([0])[0]
    assert colour.shape == (3, 8, 8) and colour[:, :4].max() == 0
    assert untwine.dataset(str(tmp_path), channels=4).shape == (4, 8, 8)


def test_grey_and_colour_pictures_together_are_colour(tmp_path):
    Image.new("L", (8, 8), 100).save(tmp_path / "a.png")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "b.png")
    assert untwine.dataset(str(tmp_path)).shape == (3, 8, 8)


def test_pictures_of_unknown_range_are_refused_and_folders_are_no_pictures(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "d.png").mkdir()
    assert len(untwine.dataset(str(tmp_path))) == 6
    Image.fromarray(np.zeros((16, 16), np.float32)).save(tmp_path / "f.tiff")
    with pytest.raises(DataError, match=r"f.tiff: F pixels of 32 bits"):
        untwine.dataset(str(tmp_path))


def test_a_file_that_changes_is_read_again(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 8, 8)))
    assert untwine.dataset(str(tmp_path / "x.npy")).take([0]).max() == 0
    np.save(tmp_path / "x.npy", np.ones((4, 8, 8)))
    assert untwine.dataset(str(tmp_path / "x.npy")).take([0]).max() == 1


def test_a_planned_run_reads_its_files_once(tmp_path, monkeypatch):
    reads = []
    make = datasets.make
    monkeypatch.setattr(datasets, "make", lambda choice: reads.append(choice) or make(choice))
    run = plan("vae", str(write_array(tmp_path)))
    load_dataset(run.data)
    assert len(reads) == 1


@pytest.mark.parametrize("values", [np.zeros((4, 0)), np.full((4, 2), 1e300), np.array([["a"]])])
def test_odd_vectors_are_refused(values):
    with pytest.raises(DataError, match="vectors must be"):
        untwine.from_arrays(values)


def test_likelihoods_follow_the_range_of_the_data():
    data = untwine.from_arrays(15 * np.random.default_rng(0).standard_normal((50, 3)))
    assert untwine.build("vae", data, likelihood="laplace").reconstruct(data.take([0])).shape == (
        1,
        3,
    )
    run_like = resolve_model("vae", data, Settings({}), likelihood="laplace").likelihood
    assert run_like.params["squash"] is False
    with pytest.raises(untwine.IncompatibleError, match=r"needs data in \[0, 1\]"):
        untwine.build("vae", data, likelihood="bernoulli")


def test_a_dsprites_file_without_images_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", other=np.zeros(3))
    with pytest.raises(DataError, match="has no imgs"):
        untwine.dataset("dsprites", path=str(tmp_path / "x.npz"))


def test_groups_of_a_file_reach_the_model(tmp_path):
    np.savez(tmp_path / "g.npz", images=np.zeros((6, 8, 8)), groups=np.array([0, 0, 1, 1, 2, 2]))
    data = untwine.dataset(str(tmp_path / "g.npz"))
    batch = data.batch(torch.tensor([0, 1, 5]), torch.zeros((), dtype=torch.long))
    assert batch.group.tolist() == [0, 0, 2]
    model = untwine.build("ml-vae", data, network="mlp")
    assert model.encode_group(batch.x, batch.group).shape == (2, 10)
