"""Study files: lists that multiply, and mistakes that are told with their lines."""

import textwrap

import pytest

from untwine.errors import ParameterError, UnknownNameError
from untwine.study import Mistakes, parse, read_study, resolve, shipped

BASE = """
study: small
models:
  beta-vae:
    beta: [1, 4]
data: sprites(size=16)
seeds: 3
training: {network: mlp, steps: 5, batch: 8, latent: 3}
metrics: [mig]
examples: 50
"""


def study(text, scale=""):
    return resolve(parse(textwrap.dedent(text)), scale)


def mistakes(text, scale=""):
    with pytest.raises(Mistakes) as found:
        study(text, scale)
    return str(found.value)


def test_lists_multiply_into_runs():
    found = study(BASE)
    assert found.name == "small" and len(found.runs) == 6 and len(found.settings) == 2
    assert [(r.model[0].params["beta"], r.seed) for r in found.runs[:4]] == [
        (1.0, 0),
        (1.0, 1),
        (1.0, 2),
        (4.0, 0),
    ]
    assert {run.steps for run in found.runs} == {5} and found.examples == 50


def test_lists_of_data_and_training_multiply_too():
    text = BASE.replace("data: sprites(size=16)", "data: [sprites(size=16), sprites(size=20)]")
    assert len(study(text.replace("steps: 5", "steps: [5, 6]")).runs) == 24


def test_lists_under_zip_go_side_by_side():
    text = BASE.replace("beta: [1, 4]", "zip: {beta: [1, 4]}").replace(
        "  beta-vae:", "  beta-tcvae:"
    )
    text = text.replace("{beta: [1, 4]}", "{beta: [1, 4], alpha: [2, 3]}\n    gamma: [1, 2]")
    numbers = [tuple(run.model[0].params.values())[:3] for run in study(text).settings]
    assert numbers == [(1.0, 2.0, 1.0), (4.0, 3.0, 1.0), (1.0, 2.0, 2.0), (4.0, 3.0, 2.0)]


def test_a_model_may_have_training_of_its_own():
    text = BASE.replace("beta: [1, 4]", "beta: [1, 4]\n    training: {steps: 9}\n  vae:")
    assert {(run.model_name, run.steps) for run in study(text).runs} == {
        ("beta-vae", 9),
        ("vae", 5),
    }


def test_models_compose_and_may_be_a_plain_list():
    text = BASE.replace("  beta-vae:\n    beta: [1, 4]", "  - vae\n  - jigsaw+beta-vae")
    assert [run.model_name for run in study(text).settings] == ["vae", "beta-vae+jigsaw"]


def test_a_scale_replaces_and_merges_training():
    text = BASE + "scales:\n  tiny: {seeds: [7], training: {steps: 2}}\n"
    found = study(text, "tiny")
    assert found.name == "small-tiny" and {run.seed for run in found.runs} == {7}
    assert {(run.steps, run.batch) for run in found.runs} == {(2, 8)}
    with pytest.raises(UnknownNameError, match="did you mean 'tiny'"):
        study(text, "tinny")


def test_every_mistake_is_told_at_once_with_its_line():
    told = mistakes(
        """
        models:
          beta-vae: {bta: 4}
          beta-vea: {}
          vae:
        data: [sprites(size=16), sprits]
        seeds: -1
        training: {step: 5}
        metrics: [mig, "mig[x]"]
        sedes: 3
        """
    )
    for line, word in [(6, "sprits"), (7, "seeds"), (8, "step"), (9, "variant"), (10, "sedes")]:
        assert any(f"line {line}:" in row and word in row for row in told.splitlines()), told
    assert "5 mistakes" in told


def test_mistakes_in_settings_name_the_line_of_the_parameter():
    told = mistakes(
        """
        models:
          vae:
          beta-vae:
            bta: [1, 2]
          beta-vea:
          gm-vae+factor-vae:
        data: sprites(size=16)
        training: {network: mlp, batch: 0}
        """
    )
    assert "line 5: there is no setting named 'bta'" in told
    assert "line 6: there is no model named 'beta-vea'" in told


def test_settings_that_cannot_be_built_are_told_before_anything_runs():
    told = mistakes(BASE.replace("beta-vae:\n    beta: [1, 4]", "vamp-prior+sylvester:"))
    assert "line 4" in told and "vamp-prior" in told


def test_a_batch_larger_than_the_data_is_a_mistake():
    told = mistakes(BASE.replace("batch: 8", "batch: 999999"))
    assert "cannot be drawn" in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("models: [", "not YAML"),
        ("- a", "must hold entries"),
        ("", "must hold entries"),
        ("models: [vae]\nmodels: [vae]", "there twice"),
        ("data: sprites(size=16)", "some models"),
        ("models: [vae]", "some data"),
    ],
)
def test_files_that_are_no_studies_are_refused_in_a_sentence(text, sentence):
    with pytest.raises(ParameterError, match=sentence):
        study(text)


def test_the_shipped_studies_are_found_and_their_smoke_scale_is_right():
    assert "constrained-vaes" in shipped()
    found = read_study("constrained-vaes", "smoke")
    assert found.name == "constrained-vaes-smoke" and len(found.runs) == 6
    with pytest.raises(UnknownNameError, match="did you mean"):
        read_study("constrained-vae")


def test_the_laptop_scale_covers_six_models():
    found = read_study("constrained-vaes", "laptop")
    assert len({run.model_name for run in found.runs}) == 6 and len(found.settings) == 12
