"""Study files: lists that multiply, and mistakes that are told with their lines."""

import textwrap

import pytest

from untwine.errors import ParameterError, UnknownNameError
from untwine.study.document import StudyFileErrors, parse, shipped_studies
from untwine.study.file import expand, read_study

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
REST = "data: sprites(size=16)\ntraining: {network: mlp, batch: 8}"


def study(text, scale=""):
    return expand(parse(textwrap.dedent(text)), scale)


def mistakes(text, scale=""):
    with pytest.raises(StudyFileErrors) as found:
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
    words = ["'bta'", "'beta-vea'", "", "sprits", "seeds", "'step'", "variant", "sedes"]
    for line, word in enumerate(words, 3):
        found = [row for row in told.splitlines() if f"line {line}:" in row and word in row]
        assert bool(found) == bool(word), told
    assert "7 mistakes" in told


def test_mistakes_in_models_are_told_where_no_data_can_be_opened():
    told = mistakes("models: {beta-vae: {bta: 4}}\ndata: sprits\ntraining: {lr: fast}")
    assert "3 mistakes" in told and "line 1: there is no setting named 'bta'" in told
    assert "line 2: there is no dataset named 'sprits'" in told and "line 3: lr must" in told


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


def test_a_single_model_needs_no_list():
    assert [run.model_name for run in study(f"models: vae\n{REST}").runs] == ["vae"]
    assert len(study(f"models:\n  vae:\n    training:\n{REST}").runs) == 1


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("models: {beta-vae: 4}", 1, "beta-vae must hold"),
        ("models:\n  beta-vae: [1, 4]", 2, "beta-vae must hold"),
        ("models:\n  vae:\n    training: {stepz: 3}", 3, "did you mean 'steps'"),
        ("models:\n  vae:\n    training: 5", 3, "training must hold"),
        ("models:\n  vae:\n    training: {latent: 0}", 3, "latent must be"),
        ("models: vae\nscales: {a: {training: 5}}", 2, "training must hold"),
        ("models: vae\nscales: {a: {training: {step: 5}}}", 2, "did you mean 'steps'"),
        ("models: vae\nscales: {a: {training: {lr: fast}}}", 2, "lr must be a number"),
        ("models: vae\nscales: {a: {training: {lr: }}}", 2, "lr has no value"),
        ("models: vae\nscales: {a: {training: {network: 5}}}", 2, "network must be a name"),
        ("models: vae\nscales: {a: }", 2, "the scale a must hold entries"),
        ("models: vae\nscales: [a]", 2, "scales must hold"),
        ("models:\n  beta-vae:\n    zip: [1, 2]", 3, "zip must hold"),
        ("models:\n  beta-vae:\n    beta: 1\n    zip: {beta: [3]}", 4, "write it once"),
        ("models:\n  beta-vae:\n    zip:\n      bta: [3]", 4, "'bta'"),
        ("models:\n  beta-vae:\n    beta: []", 3, "beta has no value"),
        ("models: vae\nstudy: ../../evil", 2, "plain name"),
        ("models: vae\nstudy:", 2, "plain name"),
        ("models: vae\nseeds: []", 2, "seeds must be"),
        ("models: vae\nmetrics:", 2, "some metrics"),
        ("models: vae\nmetrics:\n- mig\n- mig(bins=10)", 4, "both told as mig"),
        ("models: vae\nmetrics:\n- mig\n- clustering", 4, "no clusters"),
        ("models: vae\nmetrics: batch-classification", 2, "no latent that a group shares"),
    ],
)
def test_plausible_slips_are_mistakes_with_their_line(text, line, sentence):
    told = mistakes(f"{text}\n{REST}", "a" if "scales" in text else "")
    assert "a mistake" in told and f"line {line}: " in told and sentence in told, told


@pytest.mark.parametrize(("betas", "seeds", "kind"), [(100, 1001, "runs"), (1001, 1, "settings")])
def test_a_study_of_very_many_is_a_mistake_before_any_is_built(betas, seeds, kind):
    told = mistakes(f"models: {{beta-vae: {{beta: {list(range(betas))}}}}}\nseeds: {seeds}\n{REST}")
    assert f"0 {kind}; write" in told


def test_a_mistake_is_told_of_the_word_itself_and_not_of_a_part_of_it():
    told = mistakes("models:\n  beta-vae:\n    beta: 1\n    width: x\n    bta: 2\n" + REST)
    assert "line 5: there is no setting named 'bta'" in told
    assert "2 mistakes" in told and "line 4: mlp.width must be" in told


def test_an_entry_that_is_there_twice_names_the_file():
    with pytest.raises(
        StudyFileErrors, match=r"mine.yaml has a mistake:\n  line 2: seeds is there twice"
    ):
        parse("seeds: 1\nseeds: 2", "mine.yaml")


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
    assert "constrained-vaes" in shipped_studies()
    found = read_study("constrained-vaes", "smoke")
    assert found.name == "constrained-vaes-smoke" and len(found.runs) == 6
    with pytest.raises(UnknownNameError, match="did you mean"):
        read_study("constrained-vae")


def test_the_laptop_scale_covers_six_models():
    found = read_study("constrained-vaes", "laptop")
    assert len({run.model_name for run in found.runs}) == 6 and len(found.settings) == 18
