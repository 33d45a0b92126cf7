"""What every registered dataset must do."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from untwine.data.dataset import Dataset
from untwine.data.files import File
from untwine.data.opening import dataset
from untwine.registry import datasets
from untwine.schema import Value
from untwine.spec import build
from untwine.testing.contracts import expect, expect_documented, expect_survives_json, run_checks
from untwine.tools.compute import seeded
from untwine.train import fit

Open = Callable[..., Dataset]  # the dataset, with some parameters at other values
DatasetCheck = Callable[[str, Open], None]
CPU = torch.device("cpu")


def check_dataset(name: str, /, **params: Value) -> None:
    """Check that a registered dataset keeps the contract of datasets.

    Examples have the declared shape and range, and differ; factors, groups and length agree;
    drawing, batches and splits depend on the seed alone; a model trains on it; and it is
    documented.

    Args:
        name: of the dataset.
        params: its parameters, such as a small size or the path of an example file.
    """

    def open_with(**more: Value) -> Dataset:
        return dataset(name, **{**params, **more})

    run_checks(name, [partial(check, name, open_with) for check in DATASET_CHECKS])


def _take(data: Dataset, index: Sequence[int] | NDArray[Any], seed: int = 0) -> Tensor:
    """Examples with what is random in them fixed."""
    with seeded(seed):
        return data.take(np.asarray(index))


def _some(data: Dataset, n: int = 20) -> NDArray[np.int64]:
    """Positions from all over the data."""
    return np.unique(np.linspace(0, len(data) - 1, n).astype(np.int64))


def has_its_shape_and_range(name: str, open_with: Open) -> None:
    """Examples are finite floats of the declared shape, in [0, 1] where declared."""
    data = open_with()
    x = data.take([0, len(data) - 1])
    expect(x.shape == (2, *data.shape), f"examples have shape {tuple(x.shape[1:])}")
    expect(x.dtype == torch.float32, f"examples are {x.dtype}, not float32")
    expect(x.isfinite().all(), "examples hold NaN or infinity")
    if data.in_unit_interval:
        expect(0 <= x.min() and x.max() <= 1, "examples leave [0, 1]")


def has_channels_first(name: str, open_with: Open) -> None:
    """Examples are vectors, or images with their channels first."""
    shape = open_with().shape
    expect(isinstance(shape, torch.Size), "its shape must be a torch.Size")
    image = len(shape) == 3 and shape[0] <= 4 < min(shape[1:])
    expect(len(shape) == 1 or image, f"{tuple(shape)} is neither (D,) nor (C, H, W)")


def takes_no_examples(name: str, open_with: Open) -> None:
    """No positions give no examples."""
    data = open_with()
    x = data.take(np.zeros(0, dtype=np.int64))
    expect(x.shape == (0, *data.shape) and x.dtype == torch.float32, "no positions give an error")


def has_examples_that_differ(name: str, open_with: Open) -> None:
    """Examples are neither all alike nor all blank."""
    data = open_with()
    x = _take(data, _some(data)).flatten(1)
    expect((x.std(0) > 0).any(), "all examples are alike")
    expect((x.std(1) > 0).any(), "all examples are blank")


def has_factors_of_its_length(name: str, open_with: Open) -> None:
    """Levels are within their sizes, and there is a row or a cell for each example."""
    data = open_with()
    factors = data.factors
    if factors is None:
        return
    levels = factors.levels_at(_some(data, 1000))
    inside = (levels >= 0).all() and (levels < np.array(factors.sizes)).all()
    expect(inside, "a level is outside the sizes of the factors")
    counts = {len(factors.names), len(factors.sizes), levels.shape[1], len(set(factors.names))}
    expect(len(counts) == 1, "each factor needs a name of its own, a size and a column")
    rows = math.prod(factors.sizes) if factors.table is None else len(factors.table)
    expect(rows == len(data), f"there are factors of {rows} examples, and {len(data)} examples")


def keeps_images_with_their_factors(name: str, open_with: Open) -> None:
    """Examples and factors in another order are the same examples and factors."""
    data = open_with()
    index = _some(data)
    order = np.random.default_rng(0).permutation(len(index))
    x = _take(data, index)
    if torch.equal(x, _take(data, index, seed=1)):
        expect(torch.equal(x[order], _take(data, index[order])), "examples depend on their order")
    else:
        alike = _are_alike_on_average(data, int(index[order[0]]), int(index[order[-1]]))
        expect(alike, "examples depend on their order, beyond their noise")
    if data.factors is not None:
        levels = data.factors.levels_at(index)[order]
        expect((levels == data.factors.levels_at(index[order])).all(), "factors depend on order")


def _are_alike_on_average(data: Dataset, first: int, second: int) -> bool:
    """What is random in an image averages out: an example is more like itself than another."""
    n = 400
    mixed = _take(data, [first, second] * n, seed=1).unflatten(0, (n, 2)).mean(0)
    again = _take(data, [second] * n + [first] * n, seed=2).unflatten(0, (2, n)).mean(1)
    return bool((mixed - again.flip(0)).norm() < 0.5 * (mixed - again).norm())


def draws_by_seed(name: str, open_with: Open) -> None:
    """The same seed draws the same examples."""
    data = open_with()
    first, second = (data.sample_indices(20, np.random.default_rng(3)) for _ in range(2))
    expect((first == second).all(), "the same seed draws other examples")
    expect((first >= 0).all() and (first < len(data)).all(), "a drawn position is not in the data")
    expect(torch.equal(_take(data, first), _take(data, second)), "the same positions differ")


def makes_batches_by_seed_and_step(name: str, open_with: Open) -> None:
    """A batch is a function of seed and step, and has groups where the data has."""
    data = open_with()
    order = data.batches(4, 3, CPU)
    first = [order.at(step) for step in range(3)]
    for step in (2, 0):
        index = first[step]
        fits = index.shape == (4,) and 0 <= index.min() and index.max() < len(data)
        expect(fits, f"the positions of a batch of 4 are {index.tolist()}")
        again = data.batches(4, 3, CPU).at(step)
        expect(torch.equal(again, index), "the same seed and step give another batch")
    batch = data.batch(first[0], torch.zeros((), dtype=torch.long))
    expect(batch.x.shape == (4, *data.shape), "a batch has another shape")
    expect((batch.group is None) == (data.groups is None), "groups do not reach the batch")


def moves_to_its_own_device(name: str, open_with: Open) -> None:
    """Moving the data to where it is changes nothing."""
    data = open_with()
    same = torch.equal(_take(data, _some(data)), _take(data.to(CPU), _some(data)))
    expect(same, "moving it to the CPU changes its examples")


def has_disjoint_splits(name: str, open_with: Open) -> None:
    """Train and test have no example in common, and are no more than the whole."""
    parameters = datasets[name].parameters
    key = next((key for key in ("split", "part") if key in parameters), None)
    if key is None:
        return
    train, test = (open_with(**{key: value}) for value in ("train", "test"))
    expect(len(train) and len(test), "a split is empty")
    expect(train.shape == test.shape, "splits have different shapes")
    expect(not _contents(train) & _contents(test), "an example is in both splits")
    if "all" in typing.get_args(parameters[key].type):
        whole = len(open_with(**{key: "all"}))
        expect(len(train) + len(test) <= whole, "the splits are more than the whole")


def _contents(data: Dataset) -> set[bytes]:
    return {x.numpy().tobytes() for x in _take(data, _some(data, 500))}


def is_declared(name: str, open_with: Open) -> None:
    """Its paper, licence and address are named; files and stand-in are known."""
    entry = datasets[name]
    expect_documented(entry)
    if entry.paper != "your own data":
        expect(str(entry.metadata.get("licence", "")).strip(), "the decorator needs a licence")
        expect(entry.url.startswith("http"), "the decorator needs an address (url)")
    expect("\n" not in entry.metadata.get("citation", ""), "its citation is more than one line")
    files: Sequence[Any] = entry.metadata.get("files", ())
    expect(all(isinstance(file, File) and file.name for file in files), "its files need names")
    standin = entry.metadata.get("standin")
    drawn = standin is None or not datasets[standin].metadata.get("files")
    expect(drawn, f"its stand-in {standin} needs files itself")


def survives_json(name: str, open_with: Open) -> None:
    """A choice of it is the same after a round trip through JSON."""
    expect_survives_json(datasets, name)


def trains_a_model(name: str, open_with: Open) -> None:
    """A small VAE trains on it."""
    data = open_with()
    network: dict[str, Any] = {"width": 4, "hidden": 8} if len(data.shape) == 3 else {"width": 4}
    history = fit(build("vae", data, **network), data, steps=2, batch=4, quiet=True)
    expect(history[-1]["step"] == 2, "no model trains on it")


DATASET_CHECKS: tuple[DatasetCheck, ...] = (
    has_its_shape_and_range,
    has_channels_first,
    takes_no_examples,
    has_examples_that_differ,
    has_factors_of_its_length,
    keeps_images_with_their_factors,
    draws_by_seed,
    makes_batches_by_seed_and_step,
    moves_to_its_own_device,
    has_disjoint_splits,
    is_declared,
    survives_json,
    trains_a_model,
)
