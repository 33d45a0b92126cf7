"""Hugging Face datasets train the same weights as the arrays they hold."""

import numpy as np
import pytest
import torch

import untwine

pytestmark = pytest.mark.filterwarnings("default")
datasets = pytest.importorskip("datasets")
if not hasattr(datasets, "Dataset"):  # a folder of that name, without the library
    pytest.skip("needs Hugging Face datasets", allow_module_level=True)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (60, 16, 16), np.uint8)


def train(data):
    model = untwine.build("vae", data, latent=2, network="mlp(width=16)")
    untwine.fit(model, data, steps=20, batch=8, quiet=True)
    return torch.cat([value.flatten() for value in model.state_dict().values()])


def test_pictures_and_labels(images):
    from PIL import Image

    labels = np.arange(60) % 3
    table = {"image": [Image.fromarray(one) for one in images], "label": labels}
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    source = datasets.Dataset.from_dict(table, features=features)
    data, arrays = untwine.as_dataset(source), untwine.from_arrays(images, labels[:, None])
    index = [5, 0, 59]
    assert torch.equal(data.take(index), arrays.take(index))
    assert np.array_equal(data.factors.levels_at(index), arrays.factors.levels_at(index))
    assert torch.equal(train(source), train(arrays))


def test_a_table(images):
    rows = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    source = datasets.Dataset.from_dict({name: rows[:, i] for i, name in enumerate("abc")})
    data = untwine.as_dataset(source)
    assert tuple(data.shape) == (3,)
    assert train(source).isfinite().all()


def test_a_stream_is_refused(images):
    stream = datasets.Dataset.from_dict({"image": list(images)}).to_iterable_dataset()
    with pytest.raises(untwine.DataError):
        untwine.as_dataset(stream)
