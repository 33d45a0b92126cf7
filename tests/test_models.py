"""Contracts: what every registered model, and every pair of models, must do."""

import pytest

from untwine.registry import models
from untwine.testing import check_pair
from untwine.testing.models import MODEL_CHECKS, all_pairs

every_model = pytest.mark.parametrize("name", list(models))


@every_model
@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(name, check, tiny):
    check(name, tiny)


@every_model
def test_the_paper_has_an_address(name):
    assert models[name].url


@pytest.mark.parametrize("pair", all_pairs())
def test_every_pair_trains_or_is_refused_with_a_reason(pair, tiny):
    check_pair(pair, tiny)
