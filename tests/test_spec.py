"""Names and numbers at the border."""

import doctest
import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine.errors import IncompatibleError, ParameterError, UnknownNameError
from untwine.models import beta_vae
from untwine.registry import Choice, Registry, datasets, likelihoods, metrics, models, networks
from untwine.schema import Parameter, Range, is_supported, parameters_of
from untwine.spec import Run, merge_recipes, plan


def test_several_models_and_their_parameters():
    run = plan("beta-vae+beta-tcvae", "sprites", settings=["beta-vae.beta=2", "beta-tcvae.beta=3"])
    assert run.model_name == "beta-tcvae+beta-vae"
    assert [part.params["beta"] for part in run.model] == [3.0, 2.0]


def test_the_order_of_the_models_does_not_matter():
    assert plan("jigsaw+beta-vae", "sprites") == plan("beta-vae+jigsaw", "sprites")


def test_underscores_are_as_good_as_hyphens():
    assert plan("beta_vae", "sprites", settings=["beta_vae.beta=2"]).model_name == "beta-vae"


def test_the_hash_changes_with_every_number_and_nothing_else():
    base = plan("beta-vae", "sprites")
    assert base.hash == plan("beta-vae", "sprites", settings=["beta=4"]).hash
    others = [
        plan("beta-vae", "sprites", settings=["beta=5"]),
        plan("beta-vae", "sprites", settings=["size=32"]),
        plan("beta-vae", "sprites", network="mlp"),
        plan("beta-vae", "sprites", likelihood="gaussian"),
        plan("beta-vae", "sprites", seed=1),
        plan("beta-vae", "sprites", lr=2e-4),
    ]
    assert len({base.hash, *(run.hash for run in others)}) == 7


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"model": "beta-va"}, UnknownNameError, "did you mean 'beta-vae'"),
        ({"data": "sprits"}, UnknownNameError, "did you mean 'sprites'"),
        ({"data": "./nowhere"}, untwine.DataError, "not a dataset, a folder"),
        ({"data": "nowhere.npy"}, untwine.DataError, "no file at"),
        ({"network": "mpl"}, UnknownNameError, "did you mean 'mlp'"),
        ({"likelihood": "bernouli"}, UnknownNameError, "did you mean 'bernoulli'"),
        ({"settings": ["bet=3"]}, UnknownNameError, "did you mean 'beta'"),
        (
            {"settings": ["beta=high"]},
            ParameterError,
            "beta-vae.beta must be a number of at least 0, not 'high'",
        ),
        ({"settings": ["beta=nan"]}, ParameterError, "must be a number"),
        ({"settings": ["size=3.5"]}, ParameterError, "must be a whole number"),
        ({"settings": ["beta"]}, ParameterError, "NAME=VALUE"),
        ({"settings": ["other.beta=3"]}, UnknownNameError, "no setting named"),
        ({"model": "beta-vae+beta-vae"}, ParameterError, "named twice"),
        ({"model": "beta-vae+beta-tcvae", "settings": ["beta=3"]}, ParameterError, "write which"),
        ({"model": "beta-tcvae", "settings": ["weighting=x"]}, ParameterError, '"mws" or "mss"'),
        ({"steps": 0}, ParameterError, "whole number from 1"),
        ({"steps": 1.5}, ParameterError, "whole number from 1"),
        ({"lr": float("inf")}, ParameterError, "above 0"),
        ({"seed": -1}, ParameterError, "whole number from 0"),
        ({"seed": 2**64}, ParameterError, "whole number from 0"),
        ({"settings": ["beta=2", "beta=3"]}, ParameterError, "set twice"),
        ({"settings": ["beta=2", "beta-vae.beta=3"]}, ParameterError, "the same setting"),
        ({"settings": ["beta=1" + "0" * 400]}, ParameterError, "must be a number"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        plan(**{"model": "beta-vae", "data": "sprites", **arguments})


def test_recipes_that_clash_are_named():
    twice = [Choice("beta-vae", {"beta": 2.0}), Choice("beta-vae", {"beta": 2.0})]
    with pytest.raises(
        IncompatibleError, match=r"beta-vae and beta-vae do not combine: .*\['kl'\]"
    ):
        merge_recipes(twice)


def test_a_run_refuses_unknown_entries():
    data = {**plan("vae", "sprites").to_json(), "sed": 3}
    with pytest.raises(UnknownNameError, match="did you mean 'seed'"):
        Run.from_json(data)


@given(st.floats(0, 100), st.integers(16, 128), st.integers(0, 2**31))
def test_any_run_survives_json(beta, size, seed):
    run = plan("beta-vae", "sprites", settings=[f"beta={beta!r}", f"size={size}"], seed=seed)
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize("registry", [networks, likelihoods], ids=lambda r: r.kind)
def test_networks_and_likelihoods_are_documented(registry):
    for name in registry:
        entry = registry[name]
        assert entry.paper in entry.description
        assert all(p.help and is_supported(p.type) for p in entry.parameters.values())
        assert registry.from_json(registry.choose(name).to_json()) == registry.choose(name)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (float, "6", 6.0),
        (int, "3", 3),
        (bool, "True", True),
        (bool, "false", False),
        (str, "12", "12"),
        (tuple[int, ...], "2,3", (2, 3)),
        (tuple[int, ...], "(4)", (4,)),
    ],
)
def test_parameters_read_text(kind, text, value):
    found = Parameter("p", kind, value, "").parse(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"), [(int, "true"), (float, "false"), (bool, "1"), (tuple[int, ...], "a,b")]
)
def test_parameters_refuse_other_types(kind, text):
    with pytest.raises(ParameterError, match="must be"):
        Parameter("p", kind, 0, "").parse(text)


def test_help_may_span_lines():
    def f(*, a: int = 1, b: float = 2.0):
        """Title.

        Args:
            a: first line
                and the second.
            b: other.
        """

    assert {k: p.help for k, p in parameters_of(f).items()} == {
        "a": "first line and the second.",
        "b": "other.",
    }


def test_a_name_is_taken_once():
    registry = Registry("toy", "untwine.errors")

    @registry.register(title="A", paper="B")
    def thing():
        """B."""

    with pytest.raises(untwine.UntwineError, match="already exists"):
        registry.register(title="A", paper="B")(thing)
    assert list(registry) == ["thing"]


def test_unknown_names_list_what_there_is_when_nothing_is_near():
    with pytest.raises(UnknownNameError, match=r"there are: .*vae"):
        models["zzzzzz"]


RANGED = [
    pytest.param(registry, name, p, id=f"{name}.{p.name}")
    for registry in (models, networks, likelihoods, datasets, metrics)
    for name in registry
    for p in registry[name].parameters.values()
    if p.range
]


@pytest.mark.parametrize(("registry", "name", "p"), RANGED)
def test_numbers_outside_their_range_are_refused_by_name(registry, name, p):
    beyond = p.range.least - 1
    value = (int(beyond),) if isinstance(p.default, tuple) else beyond
    with pytest.raises(ParameterError, match=rf"{name}\.{p.name} must be .*{p.range}"):
        registry.choose(name, **{p.name: value})


def test_registered_functions_check_what_they_are_called_with():
    with pytest.raises(ParameterError, match=r"beta-vae\.beta must be a number of at least 0"):
        beta_vae(beta=-1)
    with pytest.raises(UnknownNameError, match="did you mean 'beta'"):
        beta_vae(bta=1)


@pytest.mark.parametrize(
    ("numbers", "inside", "outside", "words"),
    [
        (Range(1), [1, 5], [0], "of at least 1"),
        (Range(0, closed=False), [0.1], [0], "above 0"),
        (Range(0, 1), [0, 0.5, 1], [-0.1, 1.1], "from 0 to 1"),
        (Range(0, 1, closed=False), [0.5], [0, 1], "between 0 and 1"),
    ],
)
def test_ranges_know_their_members_and_their_words(numbers, inside, outside, words):
    assert all(value in numbers for value in inside)
    assert not any(value in numbers for value in outside)
    assert str(numbers) == words


ENTRIES = [
    pytest.param(registry[name], id=name)
    for registry in (models, networks, likelihoods, datasets, metrics)
    for name in registry
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_examples_in_registered_docstrings_are_true(entry):
    function = inspect.unwrap(entry.function)
    names = {**vars(inspect.getmodule(function))}
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(function, globs=names):
        assert runner.run(test).failed == 0
