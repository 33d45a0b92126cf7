"""Painted faces: rates that hold, attributes that can be seen, faces that stay the same."""

import importlib

import numpy as np
import pytest
import torch

import untwine
from untwine.datasets.faces import (
    ATTRIBUTES,
    COLUMNS,
    HAIR,
    NAMES,
    attributes,
    draw_numbers,
    paint_block,
    share_out,
    traits,
)
from untwine.errors import ParameterError
from untwine.registry import datasets

PARAMETERS = datasets["faces"].parameters
RATES = {name: PARAMETERS[name.replace(" ", "_")].default for name in ATTRIBUTES}
MANY = 200_000


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))


def few(**settings):
    return untwine.dataset("faces", **{"size": 32, "count": 12, **settings})


def pictures(has, size=32, domain="photo", n=12):
    """(n, size, size, 3) from 0 to 1: the same people with these attributes and no others."""
    u = draw_numbers(5, [0], n)
    known = {name: np.full(n, float(has.get(name, 0))) for name in ATTRIBUTES}
    return paint_block(traits(u, known, domain), size, domain) / 255


def people(**rates):
    rates = {**RATES, **{name.replace("_", " "): rate for name, rate in rates.items()}}
    return rates, attributes(draw_numbers(0, [0], MANY), rates)


def test_default_rates_are_those_of_celeba():
    assert RATES["female"] == 0.5806 and RATES["eyeglasses"] == 0.0646
    assert RATES["bald"] == 0.0228 and RATES["beard"] == 0.1658 and RATES["grey hair"] == 0.0424


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"female": 0.95, "beard": 0.5},
        {"female": 1.0, "bald": 0.3, "beard": 1.0, "hat": 0.9},
        {"old": 0.0, "grey_hair": 0.38},
        {"bald": 0.0, "grey_hair": 0.2, "black_hair": 0.3, "blond_hair": 0.3, "brown_hair": 0.2},
        {"bald": 1.0, "grey_hair": 0, "black_hair": 0, "blond_hair": 0, "brown_hair": 0},
    ],
)
def test_attributes_are_as_frequent_as_asked(given):
    rates, has = people(**given)
    for name, rate in rates.items():
        assert has[name].mean() == pytest.approx(rate, abs=4.5 * 0.5 / MANY**0.5), name


def test_attributes_that_exclude_each_other_do():
    _, has = people()
    assert sum(has[name] for name in HAIR).max() == 1
    assert not (has["beard"] * has["female"]).any() and not (has["bald"] * has["female"]).any()
    assert not (has["hat"] * has["bald"]).any()
    assert has["old"][has["grey hair"] > 0].all()


def test_attributes_that_do_not_are_independent():
    _, has = people()
    for first, second in (("smiling", "female"), ("eyeglasses", "old"), ("hat", "female")):
        assert abs(np.corrcoef(has[first], has[second])[0, 1]) < 4.5 / MANY**0.5


def test_a_quota_fills_the_liked_first_and_never_too_much():
    room = np.array([0.2, 0.3, 0.5])
    found = share_out(0.4, room, np.array([1.0, 1.0, 0.0]))
    assert np.allclose(found, [0.2, 0.2, 0]) and found.sum() == pytest.approx(0.4)
    assert np.allclose(share_out(1.0, room, np.array([0.0, 1.0, 0.0])), room)


def test_another_rate_changes_only_those_who_gain_or_lose_it():
    _, few_glasses = people(eyeglasses=0.1)
    _, many_glasses = people(eyeglasses=0.5)
    assert (many_glasses["eyeglasses"] >= few_glasses["eyeglasses"]).all()
    assert all((few_glasses[k] == many_glasses[k]).all() for k in ATTRIBUTES if k != "eyeglasses")


def test_hair_beyond_all_heads_is_refused():
    with pytest.raises(ParameterError, match=r"together they are 1\.153; choose rates whose sum"):
        few(black_hair=0.735)


@pytest.mark.parametrize("domain", ["photo", "scan"])
@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_an_attribute_alone_can_be_seen(attribute, size, domain):
    without, with_ = pictures({}, size, domain), pictures({attribute: 1}, size, domain)
    change = (without - with_).abs().amax(-1)  # (n, size, size)
    assert ((change > 0.1).float().mean((1, 2)) > 0.004).float().mean() > 0.5
    assert (change.amax((1, 2)) > 0.1).float().mean() > 0.8


@pytest.mark.parametrize("attribute", ["eyeglasses", "beard"])
def test_glasses_and_beards_show_even_in_small_pictures(attribute):
    change = (pictures({}) - pictures({attribute: 1})).abs().amax(-1)
    assert (change > 0.1).float().mean((1, 2)).median() > 0.03


def test_attributes_change_their_own_part_of_the_face():
    plain = pictures({}, 64)
    change = {name: (plain - pictures({name: 1}, 64)).abs().mean((0, 3)) for name in ATTRIBUTES}
    place = torch.arange(64)
    rows = {name: float((c.sum(1) * place).sum() / c.sum()) for name, c in change.items()}
    assert rows["hat"] < rows["eyeglasses"] < rows["smiling"] < 64
    assert rows["bald"] < rows["eyeglasses"] < rows["beard"]


def test_there_is_skin_in_the_middle_of_the_picture():
    """Warm colours: more red than green and more green than blue."""
    middle = pictures({}, 64, n=40)[:, 28:44, 24:40].mean((1, 2))
    assert ((middle[:, 0] > middle[:, 1]) & (middle[:, 1] > middle[:, 2])).float().mean() > 0.9


@pytest.mark.parametrize("size", [32, 45, 64, 128])
def test_every_size_shows_the_same_faces(size):
    data = few(size=size, count=3)
    assert data.shape == (3, size, size) and len(data) == 3
    x = torch.nn.functional.interpolate(data.take([0, 1, 2]), size=32, mode="area")
    assert (x - few(count=3).take([0, 1, 2])).abs().mean() < 0.04


def test_a_face_is_a_function_of_seed_and_number():
    first, longer, other = few(), few(count=20), few(seed=1)
    everyone = torch.arange(12)
    assert (first.factors.table == longer.factors.table[:12]).all()
    assert (first.take(everyone) - longer.take(everyone)).abs().max() <= 1.01 / 255
    assert (first.take(everyone) - other.take(everyone)).abs().mean() > 0.1


def test_splits_share_no_face_and_make_up_the_whole():
    train, test, both = (few(split=split) for split in ("train", "test", "all"))
    assert len(train) == len(test) == 12 and len(both) == 24
    together = torch.cat([train.take(torch.arange(12)), test.take(torch.arange(12))])
    assert (together - both.take(torch.arange(24))).abs().max() <= 1.01 / 255
    assert len(both.source.values.flatten(1).unique(dim=0)) == 24


def test_factors_are_the_attributes_and_graded_numbers():
    data = few(count=300)
    assert data.factors.names == NAMES and data.factors.sizes == (2,) * 11 + (10,) * 5
    assert data.factors.table.shape == (300, 16) and data.factors.table.dtype == np.int8
    tone = data.factors.table[:, NAMES.index("skin tone")]
    bright = data.take(np.arange(300))[:, :, 14:22, 12:20].mean((1, 2, 3)).numpy()
    assert np.corrcoef(tone, bright)[0, 1] < -0.7


def test_graded_numbers_have_levels_of_equal_frequency():
    u = draw_numbers(0, [0], MANY)
    for name in ("yaw", "light", "width", "skin", "backdrop"):
        assert np.abs(np.bincount((10 * u[name]).astype(int)) / MANY - 0.1).max() < 0.004


def test_the_domains_show_the_same_people_in_another_way():
    photo, scan = few(), few(domain="scan")
    assert (photo.factors.table == scan.factors.table).all()
    x, y = photo.take(torch.arange(12)), scan.take(torch.arange(12))
    assert (x - y).abs().mean() > 0.08
    corners = y[:, :, :2, :4]
    assert torch.equal(corners, corners[:, :, :1, :1].expand_as(corners))
    assert (x[:, :, :2, :4].std((2, 3)) > 0).any()
    assert y.std(1).mean() < 0.6 * x.std(1).mean()  # scans have less colour


def test_faces_are_painted_once(monkeypatch):
    first = few()
    monkeypatch.setattr(importlib.import_module("untwine.datasets.faces"), "paint_all", None)
    assert torch.equal(few().source.values, first.source.values)
    with pytest.raises(TypeError):
        few(seed=2)


def test_what_varies_is_named_once():
    assert len(set(COLUMNS)) == len(COLUMNS)
