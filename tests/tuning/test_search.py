"""A search finds what was planted, resumes where it was killed, and trains nothing twice."""

import contextlib
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import (
    DataError,
    MissingLibraryError,
    ParameterError,
    RunError,
    UnknownNameError,
)
from untwine.runs import training
from untwine.runs.names import place_run
from untwine.study.stored_codes import read_codes
from untwine.tuning import database, search
from untwine.tuning.space import read_search

DATA = "sprites(size=16)"
SMALL = {"network": "mlp(width=16)", "latent": 3, "steps": 40, "threads": 1, "device": "cpu"}
QUICK = {**SMALL, "n_examples": 200, "quiet": True}
TARGET = 4.0  # of beta, planted


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planted(monkeypatch):
    """Nothing is trained: the score of a run is how close its beta is to the target.

    During training it rises to that from below, so that pruning can tell trials apart.
    """
    specs = {}

    def score_of(spec):
        return -abs(math.log(spec.model[0].params["beta"] / TARGET))

    def train(objective, spec, look):
        path = place_run(spec, objective.tuning.out)
        specs[path] = spec
        for part in (1, 2, 3):
            if look and objective.prune:
                look(None, part)
        return path

    def partial_look(objective, trial, spec):
        return lambda model, part: objective.report(trial, part, score_of(spec) - (4 - part))

    monkeypatch.setattr(search.Objective, "train", train)
    monkeypatch.setattr(search, "partial_look", partial_look)
    monkeypatch.setattr(
        search.Objective,
        "score",
        lambda objective, paths: float(np.mean([score_of(specs[path]) for path in paths])),
    )


@pytest.fixture
def trainings(monkeypatch):
    """The runs that are really trained, in order."""
    names = []
    fit = training.fit

    def counted(*args, **options):
        names.append(options["seed"])
        return fit(*args, **options)

    monkeypatch.setattr(training, "fit", counted)
    return names


def test_the_planted_value_is_found(here, planted):
    tuning = untwine.tune(
        "beta-vae", DATA, ["beta=0.5..20:log"], by="mig", trials=25, prune=False, **QUICK
    )
    assert [tried.state for tried in tuning.trials] == ["finished"] * 25
    assert abs(math.log(float(tuning.best.values["beta"]) / TARGET)) < 0.2
    assert tuning.best.score == max(tried.score for tried in tuning.trials)


def test_trials_that_do_badly_are_pruned_by_the_score_that_is_returned(here, planted):
    tuning = untwine.tune("beta-vae", DATA, ["beta=0.5..20:log"], by="mig", trials=25, **QUICK)
    pruned = [tried for tried in tuning.trials if tried.state == "pruned"]
    assert pruned and all(tried.number > database.STARTUP_TRIALS for tried in pruned)
    final = {tried.number: -abs(math.log(float(tried.values["beta"]) / TARGET)) for tried in pruned}
    assert all(value < tuning.best.score for value in final.values())
    assert abs(math.log(float(tuning.best.values["beta"]) / TARGET)) < 0.2


def test_lower_is_better_where_the_metric_says_so(here, planted, monkeypatch):
    # The planted score is negative and best at 0; for an error, the least is best.
    tuning = untwine.tune(
        "beta-vae", DATA, ["beta=0.5..20:log"], by="reconstruction", trials=8, **QUICK
    )
    assert tuning.best.score == min(tried.score for tried in tuning.finished)


def test_repeated_values_train_nothing(here, trainings):
    untwine.train_run("beta-vae", DATA, "runs", beta=4.0, quiet=True, **SMALL)
    trainings.clear()
    tuning = untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", trials=6, **QUICK)
    assert len(tuning.trials) == 6
    assert len(trainings) == 1  # beta = 1, once
    scores = {tried.values["beta"]: set() for tried in tuning.trials}
    for tried in tuning.trials:
        scores[tried.values["beta"]].add(tried.score)
    assert {value: len(each) for value, each in scores.items()} == {"1": 1, "4": 1}
    again = untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", trials=6, **QUICK)
    assert again.trials == tuning.trials and len(trainings) == 1


def test_what_is_reported_is_the_score_of_the_weights_at_that_step(here):
    line = ["beta=3.0..3.5"]
    tuning = untwine.tune("beta-vae", DATA, line, by="mig", trials=1, **QUICK)
    import optuna

    study = optuna.load_study(study_name=database.NAME, storage="sqlite:///tune.db")
    (trial,) = study.trials
    assert list(trial.intermediate_values) == [1, 2, 3]
    beta = float(tuning.best.values["beta"])
    plain = untwine.train_run(
        "beta-vae", DATA, "plain", quiet=True, beta=beta, **{**SMALL, "steps": 30}
    )
    score = untwine.evaluate_run(plain.path, ["mig"], n_examples=200)["mig"].value
    assert trial.intermediate_values[3] == pytest.approx(score, rel=1e-6)
    final = untwine.evaluate_run(tuning.best_run, ["mig"], n_examples=200)["mig"].value
    assert tuning.best.score == trial.value == final


def test_looking_at_a_training_changes_no_bit(here):
    narrow = {"factor-vae.width": 16}
    tuning = untwine.tune("factor-vae", DATA, ["gamma=3,4"], by="mig", trials=1, **narrow, **QUICK)
    narrow["gamma"] = float(tuning.best.values["gamma"])
    plain = untwine.train_run("factor-vae", DATA, "plain", quiet=True, **narrow, **SMALL)
    tuned = untwine.open_run(tuning.best_run)
    assert tuned.record["weights"] == plain.record["weights"]


def test_udr_needs_no_labels_and_compares_seeds(here):
    tuning = untwine.tune("vae", DATA, ["latent=2..3"], by="udr", trials=2, seeds=2, **QUICK)
    assert all(len(tried.runs) == 2 for tried in tuning.trials)
    stored = [read_codes(Path("runs") / name) for name in tuning.best.runs]
    codes, kl = ([each[name] for each in stored] for name in ("codes", "kl"))
    assert tuning.best.score == untwine.metrics.udr(codes, kl)["udr"]
    with pytest.raises(ParameterError, match="--seeds 3"):
        untwine.tune("vae", DATA, ["latent=2..3"], by="udr", trials=2, **QUICK)


def test_a_trial_that_fails_is_noted_and_the_others_continue(here, planted, monkeypatch):
    planted_train = search.Objective.train

    def train(objective, spec, look):
        if spec.model[0].params["beta"] > 2:
            raise RunError("training stopped: kl became NaN or infinite")
        return planted_train(objective, spec, look)

    monkeypatch.setattr(search.Objective, "train", train)
    tuning = untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", trials=8, **QUICK)
    states = {tried.values["beta"]: tried.state for tried in tuning.trials}
    assert states == {"1": "finished", "4": "failed"}
    reasons = {tried.reason for tried in tuning.trials if tried.state == "failed"}
    assert reasons == {"training stopped: kl became NaN or infinite"}


WORDS = [
    *("tune", "beta-vae", DATA, "--search", "beta=0.5..20:log", "--by", "mig", "--trials", "4"),
    *("--network", "mlp(width=16)", "--latent", "3", "--steps", "300", "--threads", "1"),
    *("--examples", "200", "--no-prune", "--quiet"),
]


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-m", "untwine", *WORDS],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "UNTWINE_RUNS": "runs"},
    )


def read_trials(folder):
    import optuna

    url = f"sqlite:///{folder / 'tune.db'}"
    study = optuna.load_study(study_name=database.NAME, storage=url)
    return [(trial.number, trial.params, trial.value, trial.state.name) for trial in study.trials]


def test_killed_and_started_again_it_continues_with_the_same_count_and_values(
    tmp_path, monkeypatch
):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    process = start(killed)
    deadline = time.monotonic() + 300
    while len(list((killed / "runs").glob("*/run.json"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = read_trials(killed)
    assert [state for *_, state in before][-1] == "RUNNING" and len(before) == 3
    process = start(killed)
    output, _ = process.communicate()
    assert process.returncode == 0, output.decode()
    monkeypatch.chdir(whole)
    options = {**QUICK, "steps": 300, "prune": False, "out": "runs"}
    untwine.tune("beta-vae", DATA, ["beta=0.5..20:log"], by="mig", trials=4, **options)
    after = read_trials(killed)
    assert after == read_trials(whole)
    assert len(after) == 4 and {state for *_, state in after} == {"COMPLETE"}
    assert after[:2] == before[:2] and after[2][1] == before[2][1]
    assert len(list((killed / "runs").glob("*/done.json"))) == 4


def test_the_command_writes_a_page_and_goes_on_with_more_trials(here):
    words = [word for word in WORDS if word not in ("--no-prune",)]
    words[words.index("300")] = "20"
    for trials in ("2", "3"):
        words[words.index("--trials") + 1] = trials
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    page = (here / "tune.report" / "index.html").read_text("utf-8")
    assert "3 trials: 3 finished" in page and page.count("<svg") == 1
    best = done.stdout.strip().splitlines()[-1]
    assert (here / best / "done.json").exists() and Path(best).name in page
    assert "--set beta-vae.beta=" in page
    assert (here / "tune.report" / "figures" / "tried.png").stat().st_size > 5_000


def test_another_question_is_refused(here, planted):
    untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", trials=1, **QUICK)
    with pytest.raises(ParameterError, match=r"another search \(different: search\)"):
        untwine.tune("beta-vae", DATA, ["beta=1,2"], by="mig", trials=1, **QUICK)
    with pytest.raises(ParameterError, match=r"different: run, search, by\)"):
        untwine.tune("vae", DATA, ["latent=2,3"], by="sap", trials=1, **{**QUICK, "steps": 7})


@pytest.mark.parametrize(
    "line, error, sentence",
    [
        ("beta", ParameterError, "NAME=LOW..HIGH"),
        ("beta=", ParameterError, "NAME=LOW..HIGH"),
        ("beta=4", ParameterError, "one value"),
        ("beta=5..1", ParameterError, "must rise"),
        ("beta=0..5:log", ParameterError, "above 0"),
        ("beta=1..5:lin", ParameterError, ":log or nothing"),
        ("beta=a..b", ParameterError, "needs a number"),
        ("beta=-1..4", ParameterError, "beta must be"),
        ("beta=1,x", ParameterError, "beta must be"),
        ("latent=1.5..4", ParameterError, "whole number"),
        ("optimiser=1..2", ParameterError, "not a number"),
        ("bata=1..2", UnknownNameError, "did you mean 'beta'"),
        ("seed=1..2", UnknownNameError, "setting"),
    ],
)
def test_searches_that_cannot_be_read(line, error, sentence):
    spec = untwine.plan("beta-vae", DATA)
    with pytest.raises(error, match=sentence):
        read_search([line], spec)


def test_searches_that_can_be_read():
    spec = untwine.plan("beta-vae", DATA, network="mlp")
    lines = ["beta=.5..2e1:log", "mlp.width=16..64", "lr=1e-4..1e-2:log", "optimiser=adam,sgd"]
    dimensions = read_search(lines, spec)
    assert [(d.low, d.high, d.log, d.whole) for d in dimensions[:3]] == [
        (0.5, 20.0, True, False),
        (16, 64, False, True),
        (1e-4, 1e-2, True, False),
    ]
    assert dimensions[3].choices == ("adam", "sgd")
    assert read_search(map(str, dimensions), spec) == dimensions


def test_files_that_are_no_search_and_files_in_use(here, planted):
    (here / "text.db").write_text("not a database" * 100)
    with pytest.raises(DataError, match=r"text\.db is not a search"):
        untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", file="text.db", **QUICK)
    os.mkfifo(here / "pipe.db")
    with pytest.raises(DataError, match=r"pipe\.db is not a file"):
        untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", file="pipe.db", **QUICK)
    with search.locked_file(here / "tune.db"), pytest.raises(RunError, match="another process"):
        untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", **QUICK)


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("trial_user_attributes", "["),
        ("trial_user_attributes", "5"),
        ("trial_user_attributes", "[]"),
        ("trial_user_attributes", '["../../x"]'),
        ("trial_user_attributes", '[".."]'),
        ("study_user_attributes", "[1]"),
        ("study_user_attributes", "3"),
    ],
)
def test_a_file_that_no_search_wrote_is_refused(here, planted, table, value):
    search_twice = {"search": ["beta=1,4"], "by": "mig", "file": "tune.db", "trials": 2, **QUICK}
    untwine.tune("beta-vae", DATA, **search_twice)
    with contextlib.closing(sqlite3.connect(here / "tune.db")) as file:
        file.execute(f"update {table} set value_json = ?", [value])
        file.commit()
    with pytest.raises(DataError, match="is not a search, or is damaged"):
        untwine.tune("beta-vae", DATA, **search_twice)


@pytest.mark.parametrize(
    "sql",
    [
        "create table bookmarks(a)",
        "create view trials2 as with recursive r(n) as (select 0 union all select n + 1 from r) "
        "select n from r",
        "create trigger t after insert on trials begin select 1; end",
        "insert into trials(number, state) with recursive r(n) as (select 0 union all "
        "select n + 1 from r where n < 100000) select n, 'COMPLETE' from r",
    ],
)
def test_a_database_of_something_else_is_not_written_to(here, sql):
    question = ({"run": "x", "seeds": 1}, {"beta"})
    if "bookmarks" not in sql:
        with database.database(here / "tune.db", *question, maximise=True):
            pass
    with contextlib.closing(sqlite3.connect(here / "tune.db")) as file:
        file.execute(sql)
        file.commit()
    before = (here / "tune.db").read_bytes()
    refusal = pytest.raises(DataError, match=r"tune\.db is not a search.*(belong|rows)")
    with refusal, database.database(here / "tune.db", *question, maximise=True):
        pass
    assert (here / "tune.db").read_bytes() == before


def test_a_search_is_kept_in_the_file_of_this_very_name(here):
    name = "a?mode=memory%20#.db"
    with database.database(here / name, {"run": "x"}, {"beta"}, maximise=True):
        pass
    assert [path.name for path in here.iterdir()] == [name]


def test_without_the_library_the_sentence_names_the_extra(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'untwine\[optuna\]'"):
        untwine.tune("beta-vae", DATA, ["beta=1,4"], by="mig", **QUICK)
