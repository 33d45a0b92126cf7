"""The contract checks find what is broken, say so in a sentence, and need no test framework."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

import untwine
from untwine.errors import IncompatibleError
from untwine.registry import REGISTRIES, dataset, metric, model
from untwine.slots import Corruption, Term
from untwine.testing import ContractBroken, check_dataset, check_metric, check_pair
from untwine.testing import datasets as dataset_checks
from untwine.testing import models as model_checks
from untwine.vae import Recipe


@pytest.fixture(autouse=True)
def clean():
    """Forget what a test registers."""
    before = [{name: kind[name] for name in kind} for kind in REGISTRIES]
    yield
    for kind, entries in zip(REGISTRIES, before, strict=True):
        kind._entries = entries


class Idle(Term):
    """A term with a parameter that it does not use, and that is NaN on black images."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, trace):
        return (trace.target.sum() * 0 + trace.target.sum().log()) * trace.z.sum(-1)


class AlwaysNoisy(Corruption):
    """Noise that does not stop in evaluation."""

    def __init__(self, sizes):
        super().__init__()

    def forward(self, x):
        return x + torch.randn_like(x), x

    def corrupt(self, x):
        return x, x


def test_a_broken_model_is_told_what_is_broken(tiny):
    @model(title="Broken", paper="Nobody, 2026")
    def broken_vae(*, weight: float = 1.0) -> Recipe:
        """A model of nobody."""
        return Recipe(corruption=AlwaysNoisy, terms={"idle": (weight, Idle)})

    for check, sentence in {
        model_checks.gives_every_parameter_a_gradient: "receive no gradient: .*unused",
        model_checks.evaluates_deterministically: "corrupted outside training",
        model_checks.takes_blank_images: "not finite on blank images",
        model_checks.is_documented: "must name the paper, Nobody, 2026",
    }.items():
        with pytest.raises(ContractBroken, match=sentence):
            check("broken-vae", tiny)


def test_a_refusal_without_names_is_no_refusal(tiny, monkeypatch):
    def refuse(*args, **options):
        raise IncompatibleError("no")

    monkeypatch.setattr(model_checks, "build", refuse)
    with pytest.raises(ContractBroken, match="must name its parts"):
        check_pair("vae+beta-vae", tiny)


def test_a_broken_metric_is_told_everything_at_once():
    @metric(
        title="Broken",
        paper="Nobody, 2026",
        url="https://example.org",
        higher_is_better=False,
        range=(0.0, 1.0),
        unchanged_by=("scale",),
    )
    def broken(codes, factors, *, bins: int = 3) -> float:
        """The size of codes (Nobody, 2026)."""
        return 2 + float(np.abs(np.asarray(codes, float)).mean())

    with pytest.raises(ContractBroken) as problem:
        check_metric("broken")
    for sentence in (
        "broken: bins is not documented under Args",
        "broken: its docstring must say 'Blind spots:'",
        "broken: scale takes it from",
        "must be refused with a DataError",
        "is outside the declared range",
    ):
        assert sentence in str(problem.value)


def test_a_broken_dataset_is_told_what_is_broken():
    @dataset(title="Broken", paper="Nobody, 2026", url="https://example.org", licence="Apache-2.0")
    def blank(*, size: int = 8) -> untwine.Dataset:
        """Nothing (Nobody, 2026).

        Args:
            size: in pixels.
        """
        return untwine.from_arrays(np.zeros((12, size, size)), np.arange(12))

    with pytest.raises(ContractBroken, match=r"^blank: all examples are alike$"):
        check_dataset("blank", size=10)
    opened = partial(untwine.dataset, "blank", size=10)
    dataset_checks.trains_a_model("blank", opened)


def test_good_parts_pass():
    check_metric("hoyer")
    check_dataset("digits", size=16)


def test_no_test_framework_is_needed_and_untwine_does_not_import_it():
    code = (
        "import sys; import untwine; assert 'untwine.testing' not in sys.modules\n"
        "sys.modules.update(pytest=None, hypothesis=None)\n"
        "from untwine.testing import check_dataset, check_metric, check_model"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
