"""What tests share: a small dataset, one thread, and the reference files when they are there."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import untwine
from untwine.scoring.evaluation import evaluate_run

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny():
    return untwine.dataset("sprites", size=16)


@pytest.fixture(scope="session")
def shared():
    """Find a reference file below $UNTWINE_SHARED, or skip the test."""
    root = Path(os.environ.get("UNTWINE_SHARED", Path(__file__).parents[2] / "shared"))

    def find(name):
        if not (root / name).exists():
            pytest.skip(f"needs {name} below $UNTWINE_SHARED")
        return root / name

    return find


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """An empty directory for runs, which commands use by themselves."""
    monkeypatch.setenv("UNTWINE_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


CASES = [
    f"{problem}__{case}"
    for problem in ("dsprites", "k3b")
    for case in "perfect permscale rotated duplicated missing noise monotone mixed2x2".split()
]


@pytest.fixture(scope="session")
def golden(shared):
    """The reference's values; `golden["cases"][NAME]["fixed"]["modern"]` for stored rows."""
    return json.loads(shared("golden/golden.json").read_text())


@pytest.fixture(scope="session")
def rows(shared):
    """The stored rows of a case by name: z_train, f_train, z_test, f_test."""
    return lambda name: np.load(shared("golden") / f"{name}.npz")


EXPLORED = {
    "plain": ("beta-tcvae", "sprites", {"size": 16, "beta": 4}),
    "clustered": ("gm-vae", "digits", {"size": 16, "clusters": 3, "split": "test"}),
    "grouped": ("ug-vae", "sprites", {"size": 16, "clusters": 2, "shared": 3}),
}


@pytest.fixture(scope="session")
def explored(tmp_path_factory):
    """The directory that holds the runs, and their paths by what they are."""
    out = tmp_path_factory.mktemp("explored")
    paths = {}
    for kind, (model, data, settings) in EXPLORED.items():
        lines = [f"{name}={value}" for name, value in settings.items()]
        numbers = {"latent": 5, "batch": 32, "steps": 60, "lr": 1e-3}
        spec = untwine.plan(model, data, network="mlp", settings=lines, **numbers)
        paths[kind] = untwine.run(spec, out, quiet=True, threads=1)
    evaluate_run(paths["plain"], ["mig", "reconstruction"], n_examples=200)
    return out, paths
