"""Weights that change with the step."""

import pytest
import torch

from untwine.parts.schedules import linear


@pytest.mark.parametrize(
    ("step", "value"), [(0, 0.0), (25_000, 6.25), (100_000, 25.0), (10**6, 25.0)]
)
def test_linear_schedule(step, value):
    assert linear(0.0, 25.0, 100_000)(torch.tensor(step)).item() == value
