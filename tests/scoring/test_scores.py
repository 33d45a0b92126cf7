"""Scores of codes from anywhere: the function, the files and the command."""

import csv
import io
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import DataError, IncompatibleError
from untwine.registry import metrics
from untwine.runs.directory import open_run, read_scores, write_scores
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.evaluation import represent_run
from untwine.scoring.references import cosine_rotation, reference_codes
from untwine.scoring.representation import Representation
from untwine.scoring.rows import read_rows, score_rows, subsample_rows
from untwine.scoring.scores import applicable, compute

QUICK = ["mig", "modularity", "factor-vae-score", "active-units"]


@pytest.fixture
def files(tmp_path):
    factors = np.random.default_rng(0).integers((3, 4), size=(600, 2))
    np.save(tmp_path / "codes.npy", reference_codes(factors)["perfect"].codes)
    np.save(tmp_path / "factors.npy", factors)
    return tmp_path


def command(*words):
    return CliRunner().invoke(app, ["score", *map(str, words)])


def test_each_score_stands_beside_references_and_its_spread(files):
    rows = read_rows(files / "codes.npy", files / "factors.npy")
    found = score_rows(rows, QUICK, seeds=3)
    assert list(found) == QUICK
    assert set(found["mig"].references) == {"perfect", "rotated", "random"}
    assert found["mig"].values == found["mig"].references["perfect"]
    assert found["mig"].spread == {"mig": 0.0}
    assert not found["active-units"].references


def test_the_spread_comes_from_held_back_rows_and_random_draws(files):
    rows = read_rows(files / "codes.npy", files / "factors.npy")
    noise = CodeArrays(np.random.default_rng(1).standard_normal((600, 2)), rows.factors)
    found = score_rows(noise, ["explicitness", "factor-vae-score"], seeds=3)
    assert all(next(iter(found[name].spread.values())) > 0 for name in found)


def test_many_rows_are_sampled_anew_for_each_seed():
    rows = CodeArrays(np.arange(3000.0).reshape(1000, 3), np.arange(1000)[:, None] % 5)
    few, same, other = (subsample_rows(rows, 100, seed) for seed in (0, 0, 1))
    assert len(few.codes) == 100 and (few.factors[:, 0] == few.codes[:, 0] // 3 % 5).all()
    assert np.array_equal(few.codes, same.codes) and not np.array_equal(few.codes, other.codes)
    assert subsample_rows(rows, 1000, 0) is rows


def test_rows_to_test_on_are_a_third_of_the_rows_scored():
    big = CodeArrays(np.zeros((900, 2)), np.zeros((900, 1)), np.zeros((900, 2)), np.zeros((900, 1)))
    few = subsample_rows(big, 300, 0)
    assert len(few.codes) == 200 and len(few.test_factors) == 100


def test_references_share_one_rotation_between_rows_to_learn_from_and_to_test_on():
    factors = np.random.default_rng(0).integers(5, size=(50, 2))
    together = reference_codes(factors)["rotated"].codes
    apart = reference_codes(factors[:30], factors[30:])["rotated"]
    assert np.array_equal(np.concatenate([apart.codes, apart.test_codes]), together)


def test_what_can_be_said_without_factors():
    names = applicable(CodeArrays(np.zeros((5, 2))))
    assert "total-correlation" in names and "mig" not in names and "udr" not in names
    assert "udr" in applicable(CodeArrays(np.zeros((5, 2)), others=(np.zeros((5, 2)),)))


def test_fresh_draws_need_a_model(tiny):
    choice = metrics.read("factor-vae-score[fresh]")
    with pytest.raises(IncompatibleError, match="fresh draws"):
        compute(CodeArrays(np.zeros((50, 2)), np.zeros((50, 1))), choice)
    model = untwine.build("vae", tiny, network="mlp", latent=3)
    quick = metrics.choose("factor-vae-score", draws="fresh", votes=50, test_votes=20, batch=4)
    values = compute(Representation(model, tiny, n_examples=50), quick)
    assert all(0 <= value <= 10 for value in values.values())


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "headed csv"])
def test_files_of_all_kinds_hold_the_same_rows(tmp_path, kind):
    codes, factors = np.array([[0.5, 1e-3], [2.0, -1.0]]), np.array([[0], [1]])
    if kind == "npy":
        np.save(tmp_path / "c.npy", codes), np.save(tmp_path / "f.npy", factors)
        paths = tmp_path / "c.npy", tmp_path / "f.npy"
    elif kind == "npz":
        np.savez(tmp_path / "both.npz", codes=codes, factors=factors)
        paths = tmp_path / "both.npz", tmp_path / "both.npz"
    else:
        header = "z1,z2" if kind == "headed csv" else ""
        np.savetxt(tmp_path / "c.csv", codes, delimiter=",", header=header, comments="")
        np.savetxt(tmp_path / "f.csv", factors, delimiter=",")
        paths = tmp_path / "c.csv", tmp_path / "f.csv"
    rows = read_rows(*paths)
    assert np.allclose(rows.codes, codes) and np.array_equal(rows.factors, factors)


def test_command_prints_a_table_json_or_csv(files):
    words = [files / "codes.npy", files / "factors.npy", "--metrics", ",".join(QUICK), "-q"]
    table, as_json, as_csv = command(*words), command(*words, "--json"), command(*words, "--csv")
    assert table.exit_code == as_json.exit_code == as_csv.exit_code == 0
    values = json.loads(as_json.stdout)
    assert list(values) == QUICK and set(values["mig"]) == {"values", "references", "spread"}
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert rows[0]["score"] == "mig" and float(rows[0]["perfect"]) == pytest.approx(1.0, abs=0.01)
    assert table.stdout.splitlines()[1].split("\t")[0] == "mig"


def test_csv_names_the_deviation_and_has_all_digits(files):
    np.save(files / "noise.npy", np.random.default_rng(1).standard_normal((600, 2)))
    words = [files / "noise.npy", files / "factors.npy", "--metrics", "explicitness", "-q"]
    row = next(csv.DictReader(io.StringIO(command(*words, "--csv").stdout)))
    assert list(row) == ["score", "value", "sd", "random", "rotated", "perfect"]
    assert float(row["sd"]) > 0 and len(row["value"].partition(".")[2]) > 6
    assert "± seeds" in command(*words).stdout.splitlines()[0]


@pytest.mark.parametrize("name", ["codes.pt", "codes.pkl"])
def test_pickled_codes_are_refused_with_the_cure(files, name):
    torch.save(torch.zeros(600, 2), files / name)
    refused = command(files / name, files / "factors.npy")
    assert refused.exit_code and "np.save" in str(refused.exception)


def test_a_score_that_is_unreliable_says_so(tiny):
    model = untwine.build("vae", tiny, network="mlp", latent=3)
    few, many = (
        untwine.evaluate(model, tiny, ["log-likelihood", "elbo"], n_examples=20, draws=draws)
        for draws in (2, 200)
    )
    assert few.note("log-likelihood").startswith("unreliable: ") and not few.note("elbo")
    assert few.to_frame().loc["log-likelihood", "note"] == few.note("log-likelihood")
    assert not many.note("log-likelihood") and "note" not in many.to_frame()


def test_no_example_of_small_data_comes_twice():
    small = untwine.from_arrays(np.random.default_rng(0).random((60, 5)))
    model = untwine.build("vae", small, network="mlp", latent=2)
    sample = Representation(model, small, n_examples=1000, chunk=16)
    assert len(set(sample.index)) == len(sample.index) == 40
    assert len(set(sample.test_index)) == len(sample.test_index) == 20
    assert not set(sample.index) & set(sample.test_index)
    assert len(sample.elbos) == 2  # whole chunks only, which share no example
    again = Representation(model, small, n_examples=1000, repeat=True)
    assert len(again.index) == 1000 and set(again.index) <= set(sample.index)


def test_scores_of_repeated_examples_are_computed_again(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((60, 5)))
    run = untwine.train_run("vae", str(tmp_path / "rows.npy"), tmp_path / "runs", steps=2, batch=8)
    untwine.evaluate_run(run.path, ["reconstruction"])
    stored = read_scores(run.path)
    assert stored["reconstruction"]["examples"] == 10_000
    assert stored["reconstruction"]["distinct"] == 40
    del stored["reconstruction"]["distinct"]  # as earlier versions wrote it
    stored["reconstruction"]["values"] = {"squared_error": 5.0}
    write_scores(run.path, stored)
    assert float(untwine.evaluate_run(run.path, ["reconstruction"])["reconstruction"]) < 5


def test_command_says_when_it_scores_a_part(files):
    result = command(
        files / "codes.npy", files / "factors.npy", "--metrics", "mig", "--rows", 300, "--seeds", 2
    )
    assert "scored on 300 of 600 rows" in result.stderr and result.exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing.npy"], "there is no file"),
        (["text.npy"], "is not an .npy"),
        (["codes.npy", "short.npy"], "must agree"),
        (["codes.npy", "factors.npy", "--test-codes", "codes.npy"], "come together"),
        (["codes.npy", "factors.npy", "--metrics", "mug"], "did you mean 'mig'"),
        (["codes.npy", "factors.npy", "--metrics", "sap[smv]"], "did you mean 'svm'"),
        (["codes.npy", "factors.npy", "--json", "--csv"], "exclude each other"),
        (["codes.npy", "--metrics", "mig"], "factors"),
    ],
)
def test_bad_input_is_one_sentence(files, words, sentence, monkeypatch):
    monkeypatch.chdir(files)
    (files / "text.npy").write_text("not numbers")
    np.save(files / "short.npy", np.zeros((3, 1), int))
    result = command(*words)
    assert result.exit_code != 0 and isinstance(result.exception, untwine.UntwineError)
    assert sentence in str(result.exception)


def test_rows_to_test_on_are_never_among_those_learned_from(tiny):
    few = untwine.dataset("digits")
    for data in (few, tiny):
        seen = Representation(untwine.build("vae", data, network="mlp"), data, n_examples=1000)
        assert len(seen.index) == 1000 and len(seen.test_index) == 500
        assert not np.isin(seen.test_index, seen.index).any()


def test_one_name_for_two_scores_is_refused(files):
    rows = read_rows(files / "codes.npy", files / "factors.npy")
    with pytest.raises(untwine.ParameterError, match="asked for 2 times"):
        score_rows(rows, ["mig(bins=5)", "mig(bins=30)"])
    with pytest.raises(untwine.ParameterError, match="no metric is named"):
        score_rows(rows, [])


@pytest.mark.parametrize(
    ("first", "rows"), [("1.5E-05,2", 2), ("NaN,1", 2), ("0,1", 1), ("a,b", 1)]
)
def test_only_a_header_is_taken_for_one(tmp_path, first, rows):
    (tmp_path / "c.csv").write_text(f"{first}\n3,4\n")
    assert len(read_rows(tmp_path / "c.csv").codes) == rows


def test_a_seed_whose_rows_are_refused_is_left_out(capsys):
    factors = np.zeros((40, 1), int)
    order = np.random.default_rng(0).permutation(40)  # by which seed 0 holds rows back
    factors[order[[0, -1]]] = 1
    rows = CodeArrays(np.random.default_rng(0).standard_normal((40, 2)), factors)
    found = score_rows(rows, ["explicitness", "mig"], seeds=8)
    assert set(found) == {"explicitness", "mig"} and "is skipped" in capsys.readouterr().err


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_rotated_reference_mixes_every_factor_into_every_latent(k):
    turn = cosine_rotation(k)
    assert np.allclose(turn @ turn.T, np.eye(k)) and (np.abs(turn).max(0) < 0.95).all()
    assert "rotated" not in reference_codes(np.arange(6)[:, None] % 2)


def test_a_reference_that_refuses_does_not_cost_the_score():
    factors = np.random.default_rng(0).integers(3, size=(300, 2))
    rows = CodeArrays(np.hstack([factors] * 3) + 0.1, factors)
    found = score_rows(rows, ["downstream(method=boosting, remove=2, sizes=50)"], seeds=1)
    assert next(iter(found.values())).values


def test_one_archive_may_hold_codes_and_factors(tmp_path):
    np.savez(tmp_path / "both.npz", codes=np.zeros((4, 2)), factors=np.arange(4))
    assert read_rows(tmp_path / "both.npz").factors.shape == (4, 1)


@pytest.mark.parametrize("shape", [(), (2, 3, 4)])
def test_arrays_that_are_no_tables_are_refused(tmp_path, shape):
    np.save(tmp_path / "odd.npy", np.zeros(shape))
    with pytest.raises(DataError, match="are tables"):
        read_rows(tmp_path / "odd.npy")


def test_tensors_with_gradients_and_little_precision_are_taken():
    codes = torch.randn(50, 2, requires_grad=True)
    factors = torch.arange(50) % 3
    assert metrics["mig"].function(codes, factors) >= 0
    assert metrics["mig"].function(codes.bfloat16(), factors) >= 0


def test_large_files_are_not_read_whole(tmp_path):
    np.lib.format.open_memmap(tmp_path / "codes.npy", "w+", np.float32, (200_000, 4))
    rows = read_rows(tmp_path / "codes.npy")
    assert isinstance(rows.codes, np.memmap)
    assert len(subsample_rows(rows, 50, 0).codes) == 50


def test_damaged_archives_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros((3, 1)), b=np.zeros((3, 1)))
    with pytest.raises(DataError, match="name one of them 'codes'"):
        read_rows(tmp_path / "other.npz")


def test_training_examples_are_scored_where_they_are_asked_for(tmp_path):
    spec = untwine.plan(
        "vae", "held-out(of=digits, examples=200, part=both)", network="mlp(width=8)", steps=2
    )
    trained = open_run(untwine.run(spec, tmp_path, quiet=True))
    sizes = {
        split: len(represent_run(trained, n_examples=20, split=split).data)
        for split in (None, "training")
    }
    assert sizes == {None: 200, "training": 1300}
