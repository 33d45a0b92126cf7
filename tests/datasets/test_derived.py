"""Datasets made of other datasets: mixed, grouped, correlated and held out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import untwine
from untwine.data.dataset import Factors, Pixels, Vectors
from untwine.data.derived import Joined, Subset
from untwine.datasets.correlated import log_weights, thin_cells
from untwine.datasets.mixed import require_alike
from untwine.errors import DataError, ParameterError, UnknownNameError
from untwine.registry import datasets
from untwine.scoring.representation import Representation
from untwine.train import State

CPU = torch.device("cpu")
SPRITES = "sprites(size=16)"
HALVES = f"mixed(first={SPRITES}, second=held-out(of={SPRITES}, part=test))"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def save(path, n, factors=None, names=None, shape=(16, 16), **more):
    """Random images with factors in an .npz file."""
    images = np.random.default_rng(n).integers(0, 255, (n, *shape), dtype=np.uint8)
    known = {} if factors is None else {"factors": factors, "factor_names": np.array(names)}
    np.savez(path, images=images, **known, **more)
    return str(path)


@pytest.fixture
def uneven(tmp_path):
    """100 images whose factor `rare` has 90, 7 and 3 of its levels."""
    rare = np.repeat([0, 1, 2], [90, 7, 3])
    parity = np.arange(100) % 2
    return save(tmp_path / "u.npz", 100, np.stack([rare, parity], 1), ["rare", "parity"])


def levels(data, name, index=None):
    index = np.arange(len(data)) if index is None else np.asarray(index)
    return data.factors.levels_at(index)[:, data.factors.names.index(name)]


def batch(data, size, step, seed=0):
    return data.batches(size, seed, CPU).at(step)


def positions(data):
    """Where the examples of a part lie in the whole."""
    return data.source.index.numpy()


# The two sources


def numbers(*values):
    return Vectors(torch.tensor(values, dtype=torch.float32)[:, None])


def test_a_subset_takes_by_its_own_positions():
    part = Subset(numbers(0, 10, 20, 30), torch.tensor([3, 1], dtype=torch.int32))
    assert len(part) == 2 and part.shape == (1,)
    assert part.take(torch.tensor([1, 0, 1])).flatten().tolist() == [10, 30, 10]
    assert part.to(CPU).take(torch.tensor([], dtype=torch.long)).shape == (0, 1)


def test_joined_sources_take_in_the_order_that_is_asked_for():
    both = Joined(numbers(0, 1, 2), numbers(10, 11))
    assert len(both) == 5 and both.shape == (1,)
    assert both.take(torch.tensor([4, 0, 3, 2, 0])).flatten().tolist() == [11, 0, 10, 2, 0]
    assert both.to(CPU).take(torch.tensor([3])).item() == 10
    assert both.take(torch.tensor([], dtype=torch.long)).shape == (0, 1)


def test_joined_images_come_channels_last_in_memory():
    one, other = (Pixels(torch.randint(0, 255, (4, 8, 8, 3), dtype=torch.uint8)) for _ in "ab")
    images = Joined(one, other).take(torch.tensor([5, 1]))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images[1], one.take(torch.tensor([1]))[0])


# Mixed


@pytest.mark.parametrize(("share", "count"), [(0.5, 8), (0.25, 4), (0.9, 14)])
def test_every_batch_holds_its_share_of_both(share, count):
    data = untwine.dataset("mixed", first=SPRITES, second=SPRITES, share=share)
    for step in (0, 1, 50_000):
        domain = levels(data, "domain", batch(data, 16, step))
        assert (domain == 0).sum() == count and (domain == 1).sum() == 16 - count


def test_a_coin_for_each_example_gives_binomial_counts():
    data = untwine.dataset("mixed", first=SPRITES, second=SPRITES, share=0.25, exact=False)
    order = data.batches(64, 3, CPU)
    half = len(data) // 2
    counts = torch.tensor([(order.at(step) < half).sum() for step in range(400)]).double()
    assert counts.mean().item() == pytest.approx(16, abs=0.6)
    assert counts.var().item() == pytest.approx(64 * 0.25 * 0.75, rel=0.25)
    assert all(len(order.at(step)) == 64 for step in range(20))
    again = data.batches(64, 3, CPU)
    assert torch.equal(again.at(7), order.at(7))  # a function of seed and step alone
    assert not torch.equal(data.batches(64, 4, CPU).at(7), order.at(7))


def test_a_coin_needs_datasets_as_large_as_a_batch():
    data = untwine.dataset("mixed(first=circle(count=30), second=clusters(count=50), exact=false)")
    assert len(data.batches(30, 0, CPU).at(0)) == 30
    with pytest.raises(DataError, match="takes up to 40 examples of the first"):
        data.batches(40, 0, CPU)


def test_runs_on_mixed_data_keep_their_hash():
    text = f"mixed(first={SPRITES}, second={SPRITES}"
    plain, exact, coin = (
        untwine.plan("vae", f"{text}{more})").hash for more in ("", ", exact=true", ", exact=false")
    )
    assert plain == exact != coin


def test_mixed_images_are_those_of_their_datasets(tmp_path):
    first, second = save(tmp_path / "a.npz", 10), save(tmp_path / "b.npz", 30)
    data = untwine.dataset("mixed", first=first, second=second)
    one, other = untwine.dataset(first), untwine.dataset(second)
    assert len(data) == 40 and data.factors.names == ("domain",)
    assert levels(data, "domain").tolist() == [0] * 10 + [1] * 30
    found = data.take([9, 10, 39])
    assert torch.equal(found, torch.cat([one.take([9]), other.take([0, 29])]))


def test_each_of_two_datasets_comes_round_in_its_own_time(tmp_path):
    first, second = save(tmp_path / "a.npz", 8), save(tmp_path / "b.npz", 24)
    data = untwine.dataset("mixed", first=first, second=second)
    order = data.batches(8, 0, CPU)
    drawn = torch.cat([order.at(step) for step in range(6)]).bincount(minlength=32)
    assert (drawn[:8] == 3).all() and (drawn[8:] == 1).all()


def test_factors_that_both_have_are_kept(tmp_path):
    table = np.stack(np.unravel_index(np.arange(24), (2, 3, 4)), 1)
    first = save(tmp_path / "a.npz", 24, table, ["hue", "size", "tilt"])
    second = save(tmp_path / "b.npz", 24, table[:, ::-1] // [2, 1, 1], ["tilt", "size", "hue"])
    data = untwine.dataset("mixed", first=first, second=second)
    assert data.factors.names == ("domain", "hue", "size") and data.factors.sizes == (2, 2, 3)
    assert (levels(data, "hue")[:24] == table[:, 0]).all()
    assert (levels(data, "hue")[24:] == table[:, 0]).all()


def test_two_grids_make_a_grid():
    data = untwine.dataset("mixed", first=SPRITES, second=SPRITES)
    assert data.factors.table is None and data.factors.sizes == (2, 3, 6, 40, 32, 32)
    assert np.prod(data.factors.sizes) == len(data)
    assert (levels(data, "domain", [0, 737_279, 737_280, len(data) - 1]) == [0, 0, 1, 1]).all()


def test_datasets_of_other_shapes_or_ranges_are_refused(tiny):
    with pytest.raises(DataError, match=r"one shape, not sprites\(size=16\) \(1, 16, 16\) and"):
        untwine.dataset("mixed", first=SPRITES, second="sprites(size=32)")
    with pytest.raises(DataError, match=r"cannot join a and b: one lies in \[0, 1\]"):
        require_alike(("a", "b"), tiny, replace(tiny, in_unit_interval=False))


def test_points_mix_as_well_and_keep_their_likelihood():
    data = untwine.dataset("mixed(first=circle(count=30), second=clusters(count=50))")
    assert len(data) == 80 and not data.in_unit_interval and data.likelihood.name == "gaussian"
    assert data.factors.names == ("domain",)


def test_a_batch_without_room_for_both_is_refused():
    data = untwine.dataset("mixed", first=SPRITES, second=SPRITES, share=0.01)
    with pytest.raises(DataError, match="no room for both"):
        data.batches(16, 0, CPU)


def test_a_batch_that_is_too_much_for_one_of_them_is_refused(tmp_path):
    data = untwine.dataset("mixed", first=SPRITES, second=save(tmp_path / "a.npz", 5))
    with pytest.raises(DataError, match="and 8 of the second: a batch of 8 cannot be drawn from 5"):
        data.batches(16, 0, CPU)


def test_the_digest_of_files_is_passed_on_and_checked(tmp_path):
    first, second = save(tmp_path / "a.npz", 10), save(tmp_path / "b.npz", 20)
    run = untwine.plan("vae", f"mixed(first={first}, second={second})")
    assert run.data.params["digest"]
    datasets.make(run.data)
    save(tmp_path / "b.npz", 30)
    with pytest.raises(DataError, match="not what this run was made with"):
        datasets.make(run.data)
    assert not untwine.dataset("mixed", first=SPRITES, second=SPRITES).digest


@pytest.mark.parametrize("name", ["grouped", "correlated", "held-out"])
def test_the_digest_of_a_file_is_passed_on(tmp_path, name):
    table = np.stack(np.unravel_index(np.arange(24), (4, 6)), 1)
    path = save(tmp_path / "a.npz", 24, table, ["hue", "size"])
    settings = {
        "grouped": "by=hue",
        "correlated": "first=hue, second=size",
        "held-out": "combination=hue=0+size=1",
    }
    run = untwine.plan("vae", f"{name}(of={path}, {settings[name]})")
    assert run.data.params["digest"] == untwine.dataset(path).digest
    save(tmp_path / "a.npz", 24, table[::-1], ["hue", "size"])
    with pytest.raises(DataError, match="not what this run was made with"):
        datasets.make(run.data)


# Grouped


@pytest.mark.parametrize("by", ["shape", "shape+scale", "position-x"])
def test_a_whole_batch_shares_one_level(by):
    data = untwine.dataset("grouped", of=SPRITES, by=by)
    order = data.batches(32, 0, CPU)
    seen = set()
    for step in range(30):
        index = order.at(step)
        (level,) = {tuple(row) for row in levels_of(data, by, index)}
        assert len(set(index.tolist())) == 32
        assert len(data.groups[index].unique()) == 1
        seen.add(level)
    assert len(seen) > 2


def levels_of(data, by, index):
    names = [name.replace("-", " ") for name in by.split("+")]
    return np.stack([levels(data, name, index) for name in names], 1).tolist()


def test_groups_of_members_share_a_level_and_their_ids_say_so():
    data = untwine.dataset("grouped", of=SPRITES, by="scale", members=4)
    index = batch(data, 24, 7)
    scale = levels(data, "scale", index).reshape(6, 4)
    assert (scale == scale[:, :1]).all() and len({*scale[:, 0]}) > 1
    given = data.batch(index, torch.zeros((), dtype=torch.long))
    assert given.group.tolist() == scale.flatten().tolist()


def test_levels_come_as_often_as_in_the_data_and_each_example_once_an_epoch(uneven):
    data = untwine.dataset("grouped", of=uneven, by="rare", members=3)
    order = data.batches(3, 0, CPU)
    epoch = torch.stack([order.at(step) for step in range(33)])  # 30 + 2 + 1 groups
    assert len(epoch.unique()) == 99
    rare = levels(data, "rare", epoch.flatten()).reshape(33, 3)
    assert (rare == rare[:, :1]).all() and np.bincount(rare[:, 0]).tolist() == [30, 2, 1]
    assert not torch.equal(epoch[0], order.at(33))


def test_levels_with_too_few_examples_are_left_out(uneven):
    data = untwine.dataset("grouped", of=uneven, by="rare")
    order = data.batches(5, 0, CPU)
    rare = {int(level) for step in range(100) for level in levels(data, "rare", order.at(step))}
    assert rare == {0, 1}
    with pytest.raises(DataError, match="0 groups of 95 examples that share a level"):
        data.batches(95, 0, CPU)


def test_a_level_can_be_fixed(uneven):
    data = untwine.dataset("grouped", of=uneven, by="rare", level=1)
    assert len(data) == 7 and (levels(data, "rare") == 1).all()
    assert torch.equal(data.take(np.arange(7)), untwine.dataset(uneven).take(np.arange(90, 97)))
    assert len(set(batch(data, 7, 0).tolist())) == 7
    both = untwine.dataset("grouped", of=uneven, by="parity+rare", level=1 * 3 + 2)
    assert len(both) == 2 and (levels(both, "parity") == 1).all()


def test_odd_groups_are_refused(uneven, tmp_path):
    with pytest.raises(DataError, match="choose a multiple of 3"):
        untwine.dataset("grouped", of=uneven, by="rare", members=3).batches(16, 0, CPU)
    with pytest.raises(ParameterError, match=r"grouped\.level must be -1 to 2 for rare, not 3"):
        untwine.dataset("grouped", of=uneven, by="rare", level=3)
    with pytest.raises(UnknownNameError, match="did you mean 'rare'"):
        untwine.dataset("grouped", of=uneven, by="rar")
    with pytest.raises(ParameterError, match="names a factor twice"):
        untwine.dataset("grouped", of=uneven, by="rare+rare")
    with pytest.raises(DataError, match="has no factors; choose"):
        untwine.dataset("grouped", of=save(tmp_path / "n.npz", 4))
    gap = save(tmp_path / "g.npz", 4, np.array([[0], [0], [2], [2]]), ["a"])
    with pytest.raises(DataError, match=r"no example of .* has a = 1"):
        untwine.dataset("grouped", of=gap, by="a", level=1)


def test_domains_can_be_grouped():
    data = untwine.dataset("grouped", of=HALVES, by="domain")
    order = data.batches(16, 0, CPU)
    assert {levels(data, "domain", order.at(step)).sum() for step in range(300)} == {0, 16}


@pytest.mark.parametrize("model", ["ml-vae", "nested-vae", "ug-vae"])
def test_models_of_groups_train_on_groups(model):
    data = untwine.dataset("grouped", of=SPRITES, by="shape", members=2)
    built = untwine.build(model, data, network="mlp", width=8, latent=2)
    assert untwine.fit(built, data, steps=2, batch=8, quiet=True)[-1]["step"] == 2


# Correlated


def kept(data):
    """(32, 32) how many examples have each pair of positions."""
    pair = levels(data, "position x") * 32 + levels(data, "position y")
    return np.bincount(pair, minlength=1024).reshape(32, 32)


@pytest.mark.parametrize("strength", [1.43, 5.0, -5.0])
def test_levels_meet_as_often_as_the_formula_says(strength):
    data = untwine.dataset("correlated", of=SPRITES, strength=strength)
    a = np.arange(32) / 31
    b = a if strength > 0 else a[::-1]
    weight = np.exp(-np.square(a[:, None] - b) * strength**2 / 2)
    assert np.abs(kept(data) - 720 * weight).max() <= 1
    assert len(np.unique(positions(data))) == len(data)


def test_no_strength_keeps_everything():
    data = untwine.dataset("correlated", of=SPRITES, strength=0)
    assert (positions(data) == np.arange(737_280)).all()


def test_other_factors_stay_independent():
    data = untwine.dataset("correlated", of=SPRITES)
    table = data.factors.table.astype(float)
    found = np.corrcoef(table.T)
    assert found[3, 4] > 0.7
    found[3, 4] = found[4, 3] = 0
    assert np.abs(found - np.eye(5)).max() < 0.01


def test_factors_of_other_sizes_correlate_on_one_scale():
    data = untwine.dataset("correlated", of=SPRITES, first="scale", second="position x")
    scale, x = levels(data, "scale") / 5, levels(data, "position x") / 31
    assert np.corrcoef(scale, x)[0, 1] > 0.7
    assert abs(scale.mean() - 0.5) < 0.01 and abs(x.mean() - 0.5) < 0.01


def test_frequencies_of_the_data_are_kept_and_rare_pairs_stay_within_it(uneven):
    data = untwine.dataset("correlated", of=uneven, first="rare", second="parity", strength=2)
    meets = np.bincount(levels(data, "rare") * 2 + levels(data, "parity"), minlength=6)
    weight = np.exp(log_weights((3, 2), 2.0)).flatten()
    there = np.array([45, 45, 4, 3, 1, 2])
    assert np.abs(meets - there * weight).max() <= 1


def test_a_pair_that_never_fits_well_is_still_kept_where_it_fits_best(tmp_path):
    never = save(tmp_path / "a.npz", 8, np.repeat([[0, 1], [1, 0]], 4, 0), ["a", "b"])
    data = untwine.dataset("correlated", of=never, first="a", second="b", strength=100)
    assert len(data) == 8


def test_thinning_is_exact_to_one_and_fixed_by_its_seed():
    cell = np.random.default_rng(0).integers(0, 5, 1000)
    share = np.array([1.0, 0.5, 0.1, 0.0, 0.33])
    first, again, other = (thin_cells(cell, share, seed) for seed in (0, 0, 1))
    expected = np.bincount(cell) * share
    assert np.abs(np.bincount(cell[first], minlength=5) - expected).max() <= 1
    assert (first == again).all() and (np.diff(first) > 0).all()
    assert len(first) == len(other) and (first != other).any()


def test_a_factor_does_not_correlate_with_itself():
    with pytest.raises(ParameterError, match="not shape twice"):
        untwine.dataset("correlated", of=SPRITES, first="shape", second="Shape")


# Held out


@pytest.mark.parametrize(
    "combination", ["shape=2+scale=5", "shape=2,scale=5", "(scale=5, shape=2)", "shape=1"]
)
def test_a_combination_is_in_the_test_part_alone(combination):
    train, test = parts(combination=combination)
    first = {tuple(row) for row in np.unique(train.factors.table[:, :2], axis=0).tolist()}
    second = {tuple(row) for row in np.unique(test.factors.table[:, :2], axis=0).tolist()}
    assert not first & second and len(first | second) == 18
    assert len(second) == (6 if combination == "shape=1" else 1)
    assert combination == "shape=1" or second == {(2, 5)}


def parts(**settings):
    return [untwine.dataset("held-out", of=SPRITES, part=p, **settings) for p in ("train", "test")]


def test_random_examples_are_held_out_for_scores():
    both = untwine.dataset(f"held-out(of={SPRITES}, examples=300, part=both)")
    train, test = parts(examples=300)
    assert len(test) == len(both.evaluation) == 300 and len(both) == 737_280 - 300
    assert (positions(both) == positions(train)).all()
    assert (positions(both.evaluation) == positions(test)).all()
    other = untwine.dataset(f"held-out(of={SPRITES}, examples=300, seed=1, part=test)")
    assert len(np.intersect1d(positions(other), positions(test))) < 10
    model = untwine.build("vae", both, network="mlp(width=8)")
    sample = Representation(model, both, n_examples=50)
    assert sample.images.shape[0] == 50 and len(sample.data) == 300
    assert torch.equal(torch.from_numpy(sample.images), test.take(sample.index))


def test_data_without_factors_can_be_held_out_by_examples():
    data = untwine.dataset("held-out(of=circle(count=50), examples=10, part=both)")
    assert (len(data), len(data.evaluation), data.factors) == (40, 10, None)
    with pytest.raises(ParameterError, match="below the 50 examples"):
        untwine.dataset("held-out(of=circle(count=50), examples=50)")


def test_a_combination_can_be_what_scores_are_of():
    data = untwine.dataset(f"held-out(of={SPRITES}, part=both)")
    assert {tuple(row) for row in data.evaluation.factors.table[:, :2].tolist()} == {(2, 5)}


def test_nothing_is_made_of_data_with_examples_apart():
    with pytest.raises(DataError, match="write held-out around"):
        untwine.dataset(f"grouped(of=held-out(of={SPRITES}, examples=10, part=both))")


@pytest.mark.parametrize("settings", [{}, {"combination": "shape+scale+orientation", "share": 0.4}])
def test_the_parts_are_disjoint_and_together_everything(settings):
    train, test = map(positions, parts(**settings))
    assert (np.sort(np.concatenate([train, test])) == np.arange(737_280)).all()


@pytest.mark.parametrize(("share", "count"), [(0.2, 4), (0.5, 9), (0.001, 1)])
def test_a_share_of_random_combinations_is_held_out(share, count):
    _, test = parts(combination="shape+scale", share=share)
    assert len(np.unique(test.factors.table[:, :2], axis=0)) == count
    assert len(test) == count * 40 * 32 * 32
    _, other = parts(combination="shape+scale", share=share, seed=1)
    assert set(positions(test)) != set(positions(other))


def test_a_level_may_be_fixed_and_another_left_open():
    _, test = parts(combination="shape=0+scale", share=0.5)
    combinations = np.unique(test.factors.table[:, :2], axis=0)
    assert (combinations[:, 0] == 0).all() and len(combinations) == 3


def test_images_and_factors_of_a_part_are_those_of_the_whole(tiny):
    _, test = parts()
    index = np.array([0, 17, len(test) - 1])
    assert torch.equal(test.take(index), tiny.take(positions(test)[index]))
    assert (test.factors.levels_at(index) == tiny.factors.levels_at(positions(test)[index])).all()
    assert test.factors.sizes == tiny.factors.sizes


def test_groups_of_a_part_are_those_of_the_whole(tmp_path):
    groups = np.arange(12) // 2
    table = np.stack(np.unravel_index(np.arange(12), (3, 4)), 1)
    path = save(tmp_path / "a.npz", 12, table, ["a", "b"], groups=groups)
    data = untwine.dataset("held-out", of=path, combination="a=1")
    assert data.groups.tolist() == [0, 0, 1, 1, 4, 4, 5, 5]


@pytest.mark.parametrize(
    ("combination", "error", "sentence"),
    [
        ("shape=3", ParameterError, "shape has the levels 0 to 2, not '3'"),
        ("shape=-1", ParameterError, "levels 0 to 2, not '-1'"),
        ("shape=two", ParameterError, "levels 0 to 2"),
        ("shape=1+shape=2", ParameterError, "names shape twice"),
        ("colour=1", UnknownNameError, "no factor named 'colour'"),
        ("", UnknownNameError, "no factor named ''"),
    ],
)
def test_odd_combinations_are_refused(combination, error, sentence):
    with pytest.raises(error, match=sentence):
        untwine.dataset("held-out", of=SPRITES, combination=combination)


def test_a_part_that_would_be_empty_is_refused(tmp_path):
    table = np.array([[0, 0], [0, 1], [1, 0], [1, 0]])
    path = save(tmp_path / "a.npz", 4, table, ["a", "b"])
    with pytest.raises(DataError, match=r"no example of .* has a=1"):
        untwine.dataset("held-out", of=path, combination="a=1+b=1")
    alone = save(tmp_path / "b.npz", 4, np.zeros((4, 1), int), ["a"])
    with pytest.raises(DataError, match=r"every example of .* has a=0"):
        untwine.dataset("held-out", of=alone, combination="a=0")


@pytest.mark.parametrize("name", ["held-out", "correlated"])
def test_data_with_its_own_order_is_not_cut(name):
    with pytest.raises(DataError, match="draws its batches in its own way"):
        untwine.dataset(name, of=HALVES)


# Of all of them


def test_parts_of_parts_and_expressions_in_expressions():
    data = untwine.dataset(f"correlated(of=held-out(of={SPRITES}, combination=shape=2+scale=5))")
    assert data.shape == (1, 16, 16)
    assert not ((levels(data, "shape") == 2) & (levels(data, "scale") == 5)).any()
    assert np.corrcoef(levels(data, "position x"), levels(data, "position y"))[0, 1] > 0.7


def test_a_part_of_a_large_grid_is_small():
    data = untwine.dataset("held-out", of=SPRITES)
    assert data.source.index.dtype == torch.int32
    assert data.factors.table.dtype == np.uint8
    assert data.source.index.nbytes + data.factors.table.nbytes < 10 * 737_280


def test_levels_above_a_byte_survive(tmp_path):
    whole = Factors(("a", "b"), (300, 3))
    path = save(tmp_path / "a.npz", 900, whole.levels_at(np.arange(900)), ["a", "b"], shape=(4, 4))
    data = untwine.dataset("held-out", of=path, combination="b=0")
    assert levels(data, "a").max() == 299


EXPRESSIONS = [
    "circle(count=100)",
    "clusters(count=100)",
    HALVES,
    f"grouped(of={SPRITES}, by=scale)",
    f"grouped(of={SPRITES}, by=shape+scale, members=2)",
    f"correlated(of={SPRITES})",
    f"held-out(of={SPRITES})",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_batch_depends_on_seed_and_step_alone(text):
    data = untwine.dataset(text)
    order = data.batches(8, 3, CPU)
    first = [order.at(step) for step in range(20)]
    for step in (19, 0, 7):  # from the middle, as after an interruption, and backwards
        assert torch.equal(data.batches(8, 3, CPU).at(step), first[step])
        assert torch.equal(order.at(step), first[step])
    assert not torch.equal(torch.cat(first[:2]), torch.cat([batch(data, 8, s, 4) for s in (0, 1)]))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_interrupted_run_ends_as_if_nothing_had_happened(text, tmp_path, monkeypatch):
    settings = ["mlp.width=8"]
    run = untwine.plan(
        "vae", text, network="mlp", settings=settings, steps=6, batch=8, latent=2, lr=1e-3
    )
    how = {"threads": 1, "checkpoint_every": 2, "quiet": True, "device": "cpu"}
    whole = untwine.run(run, tmp_path / "whole", **how)
    record = State.record

    def failing(self, terms):
        record(self, terms)
        if self.step == 5:
            raise RuntimeError("the power went")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="the power went"):
        patch.setattr(State, "record", failing)
        untwine.run(run, tmp_path / "cut", **how)
    resumed = untwine.run(run, tmp_path / "cut", **how)
    for file in ("model.safetensors", "history.csv"):
        assert (resumed / file).read_bytes() == (whole / file).read_bytes()
