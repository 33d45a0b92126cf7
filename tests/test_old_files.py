"""Runs and studies of version 0.1 (commit f4f3e55) open and resume under the same names.

`fixtures/version-0.1` holds a finished run with scores, a run interrupted at step 25, a study of
four runs of which one is missing, and `expected.json`, what that version said of them.
"""

import json
import shutil
from pathlib import Path

import pytest

import untwine
from untwine.runs.states import list_states, state_step
from untwine.scoring.evaluation import evaluate_run
from untwine.study.folder import open_folder, runs_by_state

MADE = Path(__file__).parent / "fixtures" / "version-0.1"
EXPECTED = json.loads((MADE / "expected.json").read_text())


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(MADE, tmp_path / "old"))


def test_a_finished_run_opens_under_its_hash_with_its_scores(old):
    expected = EXPECTED["finished"]
    trained = untwine.open_run(old / "runs" / expected["directory"])
    assert trained.spec.hash == expected["hash"] and trained.path.name == expected["directory"]
    assert untwine.run(trained.spec, old / "runs", quiet=True) == trained.path
    assert trained.scores["mig"] == expected["scores"]["mig"]["mig"]


def test_a_finished_run_is_scored_as_before(old):
    expected = EXPECTED["finished"]
    path = old / "runs" / expected["directory"]
    (path / "scores.json").unlink()
    settings = ["sap.order=all"]  # then no dataset said that the shape has no order
    scores = evaluate_run(path, list(expected["scores"]), n_examples=200, settings=settings)
    for name, values in expected["scores"].items():
        assert scores[name].values == pytest.approx(values, abs=1e-6)


def test_an_interrupted_run_resumes_from_its_checkpoint(old):
    expected = EXPECTED["stopped"]
    path = old / "runs" / expected["directory"]
    assert state_step(list_states(path / "states")[0]) == expected["step"]
    spec = untwine.plan(
        "factor-vae",
        "sprites",
        network="mlp",
        latent=3,
        batch=16,
        steps=40,
        lr=1e-3,
        settings=["sprites.size=16", "mlp.width=8", "factor-vae.width=8", "factor-vae.depth=1"],
    )
    assert spec.hash == expected["hash"]
    trained = untwine.open_run(untwine.run(spec, old / "runs", quiet=True, threads=1))
    assert trained.path == path
    assert trained.history[-1] == pytest.approx(expected["history"], rel=1e-4)


def test_a_study_opens_and_finishes_what_is_missing(old):
    expected = EXPECTED["study"]
    folder = open_folder(old / "studies" / "small")
    states = {state: len(jobs) for state, jobs in runs_by_state(folder).items() if jobs}
    assert states == {"finished": 3, "waiting": 1}
    table = untwine.study.results(folder)
    assert dict(zip(table["run"], table["mig"], strict=True)) == expected["mig"]
    outcome = untwine.study.run(folder, workers=1, quiet=True)
    assert [job.path.name for job in outcome.done] == [expected["missing"]]
    assert sorted(untwine.study.results(folder)["run"]) == sorted(expected["runs"])
