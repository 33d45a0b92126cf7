"""Benchmarks are seldom run: names that they use must not go stale meanwhile."""

import importlib
from pathlib import Path

import pytest

from untwine.registry import datasets, models, networks

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_can_be_loaded(load, name):
    assert load(name).__doc__


def test_the_page_has_a_section_of_every_benchmark(load):
    page = load("page")
    tools = {"harness", "loops", "page", "picture"}
    assert set(page.SCRIPTS) == set(SCRIPTS) - tools
    assert all((FOLDER / f"{name}.py").exists() for name in load("picture").PICTURES)


def test_their_data_networks_and_models_exist(load):
    for data, network, _ in load("busy").CASES.values():
        datasets.parse(data)
        networks.parse(network)
    for name in [*load("job").MODELS, *load("peers").MODELS]:
        models.parse(name)


def test_a_table_becomes_bars(load, tmp_path):
    picture = load("picture")
    text = "| | hours |\n| - | -: |\n| untwine study | 1,200 (1 to 2) |\n| other | 3.5 |\n"
    assert (
        picture.draw("job", text, tmp_path) == f"![The whole job: hours]({tmp_path.name}/job.svg)"
    )
    assert "untwine study" in (tmp_path / "job.svg").read_text()
    assert picture.draw("suite", text, tmp_path) == ""
