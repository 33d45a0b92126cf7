"""Runs of data that was given in Python: stored, or referred to by its digest."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import untwine
from untwine.data import in_memory, opening
from untwine.data.in_memory import identify, read_stored, store
from untwine.errors import DataError, UnknownNameError
from untwine.runs.names import place_run

SMALL = {"network": "mlp", "latent": 2, "steps": 3, "batch": 4, "quiet": True}
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (20, 8, 8)).astype(np.uint8)
LEVELS = np.arange(20) % 4
FRAME = pd.DataFrame({"height": RNG.normal(1.7, 0.1, 20), "weight": RNG.normal(70, 9, 20)})


def forget():
    """As in another process."""
    in_memory._HELD.clear()
    opening._LOADED.clear()


GIVEN = {
    "array": lambda: IMAGES,
    "tensor": lambda: torch.from_numpy(IMAGES),
    "vectors": lambda: RNG.normal(size=(20, 3)),
    "frame": lambda: FRAME,
    "dataset": lambda: untwine.as_dataset(IMAGES, LEVELS, names=("quarter",), groups=LEVELS),
    "bounded": lambda: untwine.as_dataset(RNG.random((20, 3)), bounded=True),
    "part": lambda: untwine.split_randomly(untwine.from_arrays(IMAGES, LEVELS), 0.5)[0],
}


@pytest.mark.parametrize("kind", list(GIVEN))
def test_what_is_stored_comes_back_bit_for_bit(kind, tmp_path):
    data = identify(untwine.as_dataset(GIVEN[kind]()))
    store(data, tmp_path / "data.npz")
    again = identify(read_stored(tmp_path / "data.npz"))
    every = np.arange(len(data))
    assert again.digest == data.digest and torch.equal(again.take(every), data.take(every))
    assert again.likelihood == data.likelihood and again.columns == data.columns
    if data.factors is not None:
        assert np.array_equal(again.factors.levels_at(every), data.factors.levels_at(every))
        assert again.factors.names == data.factors.names
    assert (data.groups is None) == (again.groups is None)


@pytest.mark.parametrize("kind", ["array", "frame", "dataset"])
def test_a_stored_run_is_whole_in_another_process(kind, tmp_path):
    given = GIVEN[kind]()
    trained = untwine.train_run("vae", given, tmp_path / "runs", name="mine", **SMALL)
    assert trained.path.name == f"mine-vae-memory-{trained.spec.hash}"
    expected = untwine.codes(trained.model, trained.data)
    forget()
    again = untwine.open_run(trained.path)
    assert again.has_own_data and again.data.columns == trained.data.columns
    pd.testing.assert_frame_equal(untwine.codes(again.model, again.data), expected)
    untwine.evaluate_run(trained.path, ["elbo"], n_examples=10)
    assert untwine.write_report(trained.path, metrics=["elbo"]).exists()
    assert untwine.train_run("vae", given, tmp_path / "runs", **SMALL).path == trained.path


def test_a_run_that_refers_to_its_data_takes_it_again(tmp_path):
    trained = untwine.train_run("vae", IMAGES, tmp_path / "runs", store=False, **SMALL)
    assert not (tmp_path / "runs" / "data").exists() and len(trained.data) == 20
    forget()
    again = untwine.open_run(trained.path)
    assert again.model.sample(2).shape == (2, 1, 8, 8), "the model needs no data"
    with pytest.raises(DataError, match="given in Python and not stored; give it again"):
        len(again.data)
    assert untwine.open_run(trained.path, data=IMAGES).has_own_data
    other = untwine.open_run(trained.path, data=IMAGES[::-1].copy())
    assert not other.has_own_data and len(other.data) == 20


def test_stored_or_not_the_run_is_the_same(tmp_path):
    spec = untwine.plan("vae", IMAGES, **{k: v for k, v in SMALL.items() if k != "quiet"})
    path = untwine.run(spec, tmp_path, store=False, quiet=True)
    assert untwine.run(spec, tmp_path, quiet=True) == path == place_run(spec, tmp_path)
    elsewhere = untwine.run(spec, tmp_path / "other", quiet=True)
    weights = [(place / "model.safetensors").read_bytes() for place in (path, elsewhere)]
    assert weights[0] == weights[1] and path.name == elsewhere.name
    assert untwine.plan("vae", IMAGES[1:]).hash != untwine.plan("vae", IMAGES).hash


def test_a_run_is_resumed_with_data_that_was_stored(tmp_path):
    whole = untwine.train_run("vae", IMAGES, tmp_path / "a", **SMALL).path
    spec = untwine.plan("vae", IMAGES, **{k: v for k, v in SMALL.items() if k != "quiet"})

    def die(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        untwine.run(spec, tmp_path / "b", on_row=die, quiet=True)
    path = untwine.train_run("vae", IMAGES, tmp_path / "b", **SMALL).path
    assert (path / "history.csv").read_bytes() == (whole / "history.csv").read_bytes()


def test_a_dataset_that_has_a_name_keeps_it(tmp_path):
    data = untwine.dataset("sprites", size=16)
    assert untwine.plan("vae", data).hash == untwine.plan("vae", "sprites(size=16)").hash


def test_a_stored_file_that_was_changed_or_moved_is_named(tmp_path):
    trained = untwine.train_run("vae", IMAGES, tmp_path / "runs", **SMALL)
    (file,) = (tmp_path / "runs" / "data").iterdir()
    forget()
    moved = shutil.move(file, tmp_path / "moved.npz")
    with pytest.raises(DataError, match="name it with --data PLACE"):
        len(untwine.open_run(trained.path).data)
    assert untwine.open_run(trained.path, data=f"memory(path={moved})").has_own_data
    store(untwine.from_arrays(255 - IMAGES), file)
    forget()
    with pytest.raises(DataError, match="is not what this run was made with"):
        len(untwine.open_run(trained.path).data)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.zeros(3)}, "was not written by untwine"),
        ({"examples": np.zeros((2, 3)), "facts": np.array("[")}, "is damaged"),
        ({"examples": np.zeros((2, 3)), "facts": np.array("{}")}, "is damaged"),
    ],
)
def test_other_files_are_refused(arrays, sentence, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=sentence):
        untwine.dataset("memory", path=str(tmp_path / "x.npz"))


def test_what_a_digest_cannot_hold_is_refused():
    with pytest.raises(DataError, match="memory stands for data given in Python"):
        untwine.dataset("memory")
    grouped = untwine.dataset("grouped(of=digits, by=digit)")
    part = untwine.Dataset(grouped.source, groups=grouped.groups, batch_order=grouped.batch_order)
    with pytest.raises(DataError, match="draws its batches or is scored in its own way"):
        untwine.plan("vae", part)
    with pytest.raises(UnknownNameError, match="no setting named 'size'"):
        untwine.plan("vae", IMAGES, size=3)
