"""The command `untwine study`, from plan to report."""

import sys
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

from untwine.cli.main import app
from untwine.cli.study import list_studies
from untwine.errors import DataError, ParameterError, UntwineError
from untwine.study.file import read_study
from untwine.study.folder import make_folder
from untwine.tools.process import lock_directory


def command(*words):
    return CliRunner().invoke(app, ["study", *map(str, words)])


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Where the smoke scale of the shipped study has been run."""
    out = tmp_path_factory.mktemp("studies")
    words = ["constrained-vaes", "--scale", "smoke", "--workers", 2, "--out", out, "-q"]
    result = command("run", *words)
    assert result.exit_code == 0, result.stderr
    assert "6 of 6 runs done" in result.stderr
    again = command("run", *words)
    assert again.exit_code == 0 and again.stdout == result.stdout
    return out


NAME = "constrained-vaes-smoke"


def test_a_plan_names_the_runs_and_what_they_take():
    result = command("plan", "constrained-vaes", "--scale", "smoke")
    assert result.exit_code == 0 and "6 runs" in result.stderr and "MB of disk" in result.stderr
    assert "beta-vae beta=8.0\tsprites(size=16)\t2" in result.stdout


def test_status_counts_the_runs(studies):
    result = command("status", NAME, "--out", studies)
    assert "finished\t6" in result.stdout and "failed\t0" in result.stdout


STUDY = """
study: tiny
models: vae
data: sprites(size=16)
training: {network: mlp, steps: 5, batch: 8, latent: 2}
metrics: [mig]
examples: 60
"""


@pytest.fixture
def tiny(tmp_path):
    """A study of one run that was not started, and its only job."""
    (tmp_path / "tiny.yaml").write_text(STUDY)
    folder = make_folder(read_study(str(tmp_path / "tiny.yaml")), tmp_path)
    (job,) = folder.jobs()
    job.path.mkdir(parents=True)
    return tmp_path / "tiny.yaml", job


def test_a_run_of_another_process_is_told_and_no_failure(tiny, tmp_path):
    file, job = tiny
    with lock_directory(job.path):
        result = command("run", file, "--out", tmp_path, "-q")
    assert result.exit_code == 0 and "0 of 1 runs done" in result.stderr
    assert "1 run is running in another process" in result.stderr


def test_what_a_study_says_about_itself_is_text(tiny, tmp_path, monkeypatch, capsys):
    """Neither markup nor control characters of a received study reach the terminal."""
    make_folder(replace(read_study(str(tiny[0])), about="[/red] \x1b]0;x\x07 [bold]"), tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "500")
    list_studies(tmp_path)
    out = capsys.readouterr().out
    assert "[/red] ␛]0;x␇ [bold]" in out and "\x07" not in out


def test_status_reads_a_damaged_failure(tiny, tmp_path):
    (tiny[1].path / "failed.json").write_text("{")
    result = command("status", "tiny", "--out", tmp_path)
    assert "failed\t1" in result.stdout and "failed.json is damaged" in result.stderr


def test_a_study_at_an_address_is_read_there_and_not_run_here(tiny, tmp_path):
    file, job = tiny
    address = f"file://{tmp_path / 'bucket'}"
    make_folder(read_study(str(file)), tmp_path, storage=address)
    result = command("run", file, "--out", tmp_path)
    assert isinstance(result.exception, ParameterError) and "--backend ray" in str(result.exception)
    there = tmp_path / "bucket" / job.spec.directory
    there.mkdir(parents=True)
    (there / "failed.json").write_text('{"attempts": 1, "reason": "no luck"}')
    assert "no luck" in command("status", "tiny", "--out", tmp_path).stderr


def test_results_are_a_table_csv_or_parquet(studies, tmp_path):
    table = command("results", NAME, "--out", studies)
    assert "mig" in table.stdout.splitlines()[0] and "means over seeds" in table.stderr
    files = ["--csv", tmp_path / "r.csv", "--parquet", tmp_path / "r.parquet"]
    assert command("results", NAME, "--out", studies, *files).exit_code == 0
    csv, parquet = pd.read_csv(tmp_path / "r.csv"), pd.read_parquet(tmp_path / "r.parquet")
    assert len(csv) == len(parquet) == 6 and list(csv) == list(parquet)
    assert csv["setting"].nunique() == 3 and csv["mig"].between(0, 1).all()


def test_the_report_and_the_best_model_come_out_of_it(studies):
    result = command("report", NAME, "--out", studies, "-q")
    assert result.exit_code == 0, result.exception
    page = studies / NAME / "report" / "index.html"
    assert str(page) in result.stdout and "What to use" in page.read_text()
    best = command("best", NAME, "--out", studies)
    assert best.exit_code == 0 and "mean udr" in best.stdout and "rank correlation" in best.stderr
    assert command("best", NAME, "--by", "mig", "--out", studies).exit_code == 0


def test_the_list_has_what_is_shipped_and_what_was_begun(studies):
    result = command("list", "--out", studies)
    assert "constrained-vaes\tshipped" in result.stdout and "6 finished" in result.stdout


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (["run", "constrained-vaes", "--scale", "smok"], UntwineError, "did you mean 'smoke'"),
        (["run", "constrained-vaes", "--backend", "slurm"], ParameterError, "--backend is local"),
        (["run", "constrained-vaes", "--storage", "x"], ParameterError, "--storage is for Ray"),
        (["plan", "nothing.yaml"], UntwineError, "no study"),
        (["status", "nothing"], DataError, "there is no study"),
        (["import", "nothing.csv"], DataError, "no file"),
    ],
)
def test_bad_input_is_one_sentence(words, kind, sentence, tmp_path):
    result = command(*words, "--out", tmp_path) if words[0] != "plan" else command(*words)
    assert isinstance(result.exception, kind) and sentence in str(result.exception)


def test_the_paper_scale_names_the_data_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setattr("untwine.data.files._transfer", _no_network)
    result = command("plan", "constrained-vaes", "--scale", "paper")
    told = str(result.exception)
    assert "6 mistakes" in told and "dsprites" in told and "smallnorb" in told


def _no_network(*args, **kwargs):
    raise OSError("no network")
