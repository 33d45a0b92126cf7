"""A model, a metric and a dataset are one file each: command, README and contracts follow."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MODEL = '''
"""A toy model."""

from torch import Tensor

from untwine.records import Trace
from untwine.registry import model
from untwine.slots import Term
from untwine.vae import Recipe


class Size(Term):
    """Σ_d |z_d|, (B,)."""

    def forward(self, trace: Trace) -> Tensor:
        return trace.z.abs().sum(-1)


@model(
    title="Toy VAE",
    paper="Nobody, 2026",
    url="https://example.org",
    bibtex="@misc{nobody2026toy,\\n  title = {Toy},\\n  author = {Nobody},\\n  year = {2026}\\n}",
)
def toy_vae(*, weight: float = 1.0) -> Recipe:
    """Keep codes small (Nobody, 2026).

    Args:
        weight: of the new term.
    """
    return Recipe(terms={"size": (weight, Size)})
'''

METRIC = '''
"""A toy metric."""

from numpy.typing import ArrayLike

from untwine.metrics._arrays import check
from untwine.registry import metric


@metric(title="Toy score", paper="Nobody, 2026", url="https://example.org",
        higher_is_better=True, range=(0.0, 1.0), unchanged_by=("permutation", "sign", "scale"))
def toy_score(codes: ArrayLike, factors: ArrayLike) -> float:
    """The mean over factors of the largest squared correlation with a latent (Nobody, 2026).

    Blind spots: all that is not linear.
    """
    z, f = check(codes, factors)
    z = (z - z.mean(0)) / (z.std(0) + 1e-12)
    f = (f - f.mean(0)) / f.std(0)
    return float(((z.T @ f / len(z)) ** 2).max(0).mean())
'''

DATASET = '''
"""A toy dataset."""

import numpy as np

from untwine.data import Dataset, from_arrays
from untwine.registry import dataset


@dataset(title="Toy stripes", paper="Nobody, 2026", url="https://example.org", licence="none")
def toy_stripes(*, size: int = 16) -> Dataset:
    """One bright row in each image (Nobody, 2026).

    Args:
        size: side of the images in pixels.
    """
    return from_arrays(np.eye(size)[:, :, None].repeat(size, 2), np.arange(size)[:, None])
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with three files added, and a way to run Python in it."""
    root = tmp_path_factory.mktemp("project")
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, root)
    package = root / "src" / "untwine"
    (package / "models" / "toy_vae.py").write_text(MODEL.lstrip(), "utf-8")
    (package / "metrics" / "toy_score.py").write_text(METRIC.lstrip(), "utf-8")
    (package / "datasets" / "toy_stripes.py").write_text(DATASET.lstrip(), "utf-8")

    def python(*arguments):
        environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return root, python


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        ("models", "toy-vae", "Toy VAE"),
        ("metrics", "toy-score", "Toy score"),
        ("datasets", "toy-stripes", "Toy stripes"),
    ],
)
def test_the_command_knows_it(copy, kind, name, title):
    _, python = copy
    assert f"{name}\t{title}" in python("-m", "untwine.cli", kind)
    assert title in python("-m", "untwine.cli", kind, "show", name)


def test_it_trains_and_scores_from_the_command_line(copy):
    _, python = copy
    line = "train toy-vae+beta-vae toy-stripes --set weight=2 --steps 3 --batch 4 --set width=4 -q"
    python("-m", "untwine.cli", *line.split())
    assert "toy-score\t" in python("-m", "untwine.cli", "evaluate", "toy", "--examples", "40", "-q")


def test_the_readme_table_and_the_pages_take_it_up(copy):
    root, python = copy
    python("docs/generate.py")
    assert "| `toy-vae` | Toy VAE |" in (root / "README.md").read_text("utf-8")
    assert "toy-stripes" in (root / "docs" / "datasets.md").read_text("utf-8")


def test_the_contracts_apply_to_it(copy):
    _, python = copy
    files = ("tests/test_models.py", "tests/test_metrics.py", "tests/test_datasets.py")
    out = python("-m", "pytest", "-p", "no:cacheprovider", *files, "-k", "toy")
    passed = re.search(r"(\d+) passed", out)
    assert passed and int(passed[1]) > 30
