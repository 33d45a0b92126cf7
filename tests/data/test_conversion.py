"""Whatever holds examples becomes the same dataset."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import untwine
from untwine.data.cache import digest_of, digest_of_content
from untwine.data.conversion import as_dataset
from untwine.data.lazy import Lazy
from untwine.errors import DataError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)
VECTORS = RNG.standard_normal((40, 6)).astype(np.float32)
FIRST = np.moveaxis(IMAGES, -1, 1)
SMALL = {"network": "mlp", "latent": 2, "width": 8}


class Items:
    """A map-style dataset."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, position):
        return self.items[position]


class ManyItems(Items):
    """One that gives several items at once, and only so."""

    def __getitems__(self, positions):
        return [self.items[p] for p in positions]


class HuggingFace(Items):
    """The parts of a Hugging Face dataset that are used."""

    column_names = ("image", "label")

    class _Label:
        names = ("cat", "dog")

    features = {"image": None, "label": _Label()}  # noqa: RUF012

    def __getitem__(self, key):
        if key == "label":
            return [item["label"] for item in self.items]
        return self.items[key]


class AnnData:
    """The parts of AnnData that are used."""

    def __init__(self, values):
        self.X = values
        self.obs_names = [f"cell {i}" for i in range(values.shape[0])]
        self.var_names = [f"gene {k}" for k in range(values.shape[1])]

    def __len__(self):
        return self.X.shape[0]

    def __getitem__(self, index):
        raise NotImplementedError


def on_disk(array, folder):
    np.save(folder / "x.npy", array)
    return np.load(folder / "x.npy", mmap_mode="r")


def pictures():
    return [Image.fromarray(pixels) for pixels in IMAGES]


IMAGE_KINDS = {
    "array": lambda folder: IMAGES,
    "channels first": lambda folder: FIRST,
    "floats": lambda folder: IMAGES / 255,
    "tensor": lambda folder: torch.from_numpy(FIRST.copy()),
    "float tensor": lambda folder: torch.from_numpy(FIRST / 255).float(),
    "tensor, channels last": lambda folder: torch.from_numpy(IMAGES),
    "mapped": lambda folder: on_disk(IMAGES, folder),
    "mapped floats, channels first": lambda folder: on_disk((FIRST / 255).astype("f4"), folder),
    "TensorDataset": lambda folder: TensorDataset(torch.from_numpy(FIRST / 255).float()),
    "items": lambda folder: Items(list(IMAGES)),
    "items with labels": lambda folder: Items([(torch.from_numpy(x / 255), 3) for x in FIRST]),
    "several items at once": lambda folder: ManyItems(list(IMAGES)),
    "dictionaries of pictures": lambda folder: Items([{"image": p} for p in pictures()]),
    "Hugging Face": lambda folder: HuggingFace([{"image": p, "label": 1} for p in pictures()]),
}
VECTOR_KINDS = {
    "array": lambda folder: VECTORS,
    "list": lambda folder: VECTORS.tolist(),
    "double": lambda folder: VECTORS.astype(np.float64),
    "tensor": lambda folder: torch.from_numpy(VECTORS),
    "mapped": lambda folder: on_disk(VECTORS, folder),
    "csr": lambda folder: scipy.sparse.csr_matrix(VECTORS),
    "coo": lambda folder: scipy.sparse.coo_array(VECTORS),
    "TensorDataset": lambda folder: TensorDataset(torch.from_numpy(VECTORS), torch.arange(40)),
    "items": lambda folder: Items([(x, 0) for x in VECTORS]),
    "AnnData": lambda folder: AnnData(VECTORS),
    "sparse AnnData": lambda folder: AnnData(scipy.sparse.csr_matrix(VECTORS)),
}


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_every_kind_of_images_is_the_same_dataset(kind, tmp_path):
    data, expected = as_dataset(IMAGE_KINDS[kind](tmp_path)), untwine.from_arrays(IMAGES)
    assert len(data) == 40 and data.shape == (3, 12, 10) and data.likelihood == expected.likelihood
    assert torch.equal(data.take(np.arange(40)), expected.take(np.arange(40)))
    assert data.take(np.zeros(0, int)).shape == (0, 3, 12, 10)


@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_every_kind_of_vectors_is_the_same_dataset(kind, tmp_path):
    data, expected = as_dataset(VECTOR_KINDS[kind](tmp_path)), untwine.from_arrays(VECTORS)
    assert data.shape == (6,) and data.likelihood == expected.likelihood
    assert not data.in_unit_interval
    assert torch.equal(data.take(np.arange(40)), expected.take(np.arange(40)))


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda x: pl.DataFrame(x, schema=list("abcdef"))])
def test_frames_are_tables(frame):
    plain = as_dataset(frame(VECTORS), standardise=False)
    assert torch.equal(plain.take(np.arange(40)), torch.from_numpy(VECTORS))
    data = as_dataset(frame(VECTORS))
    x = data.take(np.arange(40))
    assert torch.allclose(x.mean(0), torch.zeros(6), atol=1e-6)
    assert torch.allclose(x.std(0, correction=0), torch.ones(6))
    assert np.allclose(data.columns.restore(x.numpy()), VECTORS, atol=1e-6)


@pytest.mark.parametrize("kind", ["mapped", "items", "csr", "tensor"])
def test_training_is_the_same_bit_for_bit(kind, tmp_path):
    x = VECTOR_KINDS[kind](tmp_path)
    weights = []
    for data in (x, untwine.from_arrays(VECTORS)):
        model = untwine.build("vae", data, **SMALL)
        untwine.fit(model, data, steps=4, batch=8, quiet=True)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert "reconstruction" in untwine.evaluate(model, x, ["reconstruction"], n_examples=20)


def test_encode_takes_what_can_become_a_dataset():
    data = untwine.from_arrays(IMAGES)
    model = untwine.build("vae", data, **SMALL)
    tensors = data.take(np.arange(40))
    expected = model.encode(tensors).numpy()
    for x in (data, IMAGES, FIRST, tensors.numpy(), Items(list(IMAGES))):
        codes = model.encode(x)
        assert isinstance(codes, np.ndarray) and np.array_equal(codes, expected)
    odd = np.full((1, 3, 12, 10), 0.1234)  # between two bytes
    assert np.array_equal(model.encode(odd), model.encode(torch.tensor(odd)).numpy())


def test_labels_become_a_factor():
    labels = torch.arange(40) % 2
    data = as_dataset(TensorDataset(torch.from_numpy(VECTORS), labels))
    assert data.factors.names == ("label",) and data.factors.sizes == (2,)
    items = [{"image": p, "label": i % 2} for i, p in enumerate(pictures())]
    factors = as_dataset(HuggingFace(items)).factors
    assert factors.level_name(0, 1) == "dog" and factors.unordered == ("label",)
    given = as_dataset(VECTORS, np.arange(40) % 4, names=("quarter",), groups=np.arange(40) // 2)
    assert given.factors.names == ("quarter",) and given.groups.max() == 19


def test_anndata_keeps_the_names_of_cells_and_genes():
    data = as_dataset(AnnData(VECTORS))
    assert data.example_name(3) == "cell 3" and data.columns.names[5] == "gene 5"
    assert as_dataset(AnnData(VECTORS), standardise=True).columns.are_standardised


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (DataLoader(TensorDataset(torch.zeros(4, 3))), r"write loader\.dataset"),
        (Stream(), "a Stream is a stream"),
        (iter([1, 2]), "is a stream"),
        (np.zeros((5, 8, 100)), r"reshape\(len\(x\), 800\), or say shape=\(1, 8, 100\)"),
        (torch.zeros(5, 3, 20), "look like series of 3 channels"),
        (np.linspace(-1, 1, 500).reshape(5, 10, 10), r"\(images \+ 1\) / 2"),
        (np.full((5, 10, 10), 200.0), r"images / 255"),
        (np.zeros(5), r"reshape\(-1, 1\)"),
        (np.full((5, 3), np.nan), "finite"),
        (Items([]), "no examples"),
        (Items(["word"] * 3), "not str"),
        (Items([{"text": 1}]), "items hold text"),
        (scipy.sparse.csr_matrix((0, 3)), "no examples"),
        (7, "a int cannot become a dataset"),
        (None, "cannot become a dataset"),
    ],
)
def test_what_cannot_be_a_dataset_is_refused_in_a_sentence(x, sentence):
    with pytest.raises(DataError, match=sentence):
        as_dataset(x)


@pytest.mark.parametrize(
    ("rows", "shape", "result"),
    [
        ((8, 100), (1, 8, 100), (1, 8, 100)),
        ((8, 100), (800,), (800,)),
        ((784,), (1, 28, 28), (1, 28, 28)),
        ((3, 8, 4), (3, 8, 4), (3, 8, 4)),
        ((3, 8, 4), (4, 3, 8), (4, 3, 8)),
    ],
)
def test_the_shape_of_an_example_can_be_said(rows, shape, result):
    assert as_dataset(np.zeros((5, *rows)), shape=shape).shape == result


@pytest.mark.parametrize("shape", [(2, 3), (7,), (1, 2, 300)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    with pytest.raises(DataError, match="cannot have shape="):
        as_dataset(np.zeros((5, 8, 100)), shape=shape)


def test_vectors_are_bounded_on_request_alone():
    data = as_dataset(np.abs(VECTORS) / 10, bounded=True)
    assert data.in_unit_interval and data.likelihood.name == "bernoulli"
    assert not as_dataset(np.abs(VECTORS) / 10).in_unit_interval
    with pytest.raises(DataError, match=r"must lie in \[0, 1\]"):
        as_dataset(VECTORS, bounded=True)


def test_a_bad_value_far_inside_a_mapped_file_is_named_when_it_is_drawn(tmp_path):
    values = np.zeros((5000, 3), np.float32)
    values[1234] = np.inf
    data = as_dataset(on_disk(values, tmp_path))
    with pytest.raises(DataError, match=r"finite.*in the examples 1234"):
        data.take([1234])


def test_a_dataset_stays_what_it_is(tiny):
    assert as_dataset(tiny) is tiny
    assert as_dataset("sprites(size=16)").name == tiny.name


LARGE = """
import resource, sys
import numpy as np, torch, untwine
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = np.load(sys.argv[1], mmap_mode="r")
model = untwine.build("vae", x, network="mlp", width=4)
untwine.fit(model, x, steps=3, batch=4, quiet=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_file_larger_than_memory_trains_in_little_of_it(tmp_path):
    """10 GB of zeros, which take no room on the disk."""
    shape = (160_000, 256, 256)
    with open(tmp_path / "huge.npy", "wb") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + int(np.prod(shape)))
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "huge.npy")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500_000  # kilobytes, most of them code


def test_a_large_file_stays_on_disk(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", IMAGES)
    function = untwine.datasets.array.__wrapped__
    monkeypatch.setitem(function.__globals__, "MAX_BYTES_IN_MEMORY", 100)
    data = untwine.dataset(str(tmp_path / "x.npy"))
    assert isinstance(data.source, Lazy)
    assert torch.equal(data.take([3, 1]), untwine.from_arrays(IMAGES).take([3, 1]))


def test_the_digest_of_a_file_is_what_it_was(tmp_path):
    (tmp_path / "x").write_bytes(b"abc" * 1000)
    assert digest_of_content(tmp_path / "x") == digest_of([("", b"abc" * 1000)])
