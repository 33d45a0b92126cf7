"""What tests share: a small dataset, one thread, and the reference files when they are there."""

import os
from pathlib import Path

import pytest
import torch

import untwine

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
