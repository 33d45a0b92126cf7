"""Compiled loops stay inside their arrays, whatever numbers come; a run of such numbers is refused.

The first test is a process of its own, because numba reads NUMBA_BOUNDSCHECK when it starts.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import DataError, RunError
from untwine.explore.view import RunView
from untwine.runs.directory import TrainedRun
from untwine.scoring.latents import run_latents
from untwine.scoring.representation import Representation

SCRIPT = Path(__file__).with_name("extremes.py")


def test_extreme_numbers_are_scored_or_refused_with_bounds_checked(tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "numba"  # checked code must not mix with the other
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, **checked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture(params=["NaN", "infinity", "overflow"])
def ruined(request, tiny):
    """A run whose weights give no finite codes."""
    spec = untwine.plan("vae", "sprites", size=16, network="mlp", latent=2)
    model = untwine.build("vae", tiny, network="mlp", latent=2)
    value = {"NaN": np.nan, "infinity": np.inf, "overflow": 1e30}[request.param]
    with torch.no_grad():
        for weights in model.parameters():
            weights.fill_(value)
    return TrainedRun(Path("ruined"), spec, model, lambda: tiny, [], {})


def test_a_model_without_finite_codes_is_refused_by_all_who_take_codes(ruined):
    with pytest.raises(DataError, match=r"NaN or infinity|overflow|scale them"):
        run_latents(ruined)
    representation = Representation(ruined.model, ruined.data, n_examples=50)
    for what in ("codes", "test_codes", "sampled_codes"):
        with pytest.raises(DataError, match=r"NaN or infinity|scale them"):
            getattr(representation, what)


def test_the_explorer_calls_such_a_run_unusable(ruined):
    with pytest.raises(RunError, match="ruined is unusable: "):
        RunView(ruined, name="ruined").require_usable()


@pytest.mark.parametrize("n", [1, 2])
def test_data_of_one_or_two_examples_is_too_small_to_evaluate(n, tiny):
    images = np.stack([image[0] for image in tiny.take(torch.arange(n)).numpy()])
    data = untwine.from_arrays(images)
    with pytest.raises(DataError, match="at least 3 examples"):
        untwine.evaluate(untwine.build("vae", replace(data), network="mlp"), data, n_examples=10)
