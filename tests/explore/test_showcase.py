"""The models that come with untwine: small, whole, made by the script, and worth a look."""

import importlib.util
from pathlib import Path

import pytest

import untwine
from untwine.cli.main import app
from untwine.explore.gallery import Gallery
from untwine.explore.showcase import FOLDER, OPENING
from untwine.runs.directory import check_weights

RUNS = untwine.list_runs(FOLDER)
MAX_BYTES = 1_000_000


def script():
    path = Path(__file__).parents[2] / "examples" / "train_showcase.py"
    spec = importlib.util.spec_from_file_location("train_showcase", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_small_and_holds_nothing_but_sealed_files():
    files = [file for run in RUNS for file in run.iterdir()]
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    assert {file.name for file in files} == set(script().FILES)


def test_the_script_trains_these_runs():
    assert {run.name for run in RUNS} == {script().plan_run(run).directory for run in script().RUNS}


def test_no_photographs_of_people_were_used():
    assert not [run.name for run in RUNS if "celeba" in (run / "run.json").read_text("utf-8")]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_model_opens_with_its_data_and_has_scores(path):
    check_weights(path)
    gallery = Gallery.find([FOLDER])
    view = gallery.view(path.name)
    summary = view.summary()
    assert view.has_examples and view.has_pictures
    assert sum(latent.active for latent in summary.latents) >= 2
    assert gallery.paths[path.name] == path and untwine.open_run(path).scores


def test_the_command_shows_them_beside_your_own_runs(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    galleries = []
    monkeypatch.setattr(
        "untwine.cli.explore.serve", lambda gallery, *_, **__: galleries.append(gallery)
    )
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["explore", "--showcase", "--port", "0"])
    assert result.exit_code == 0, result.output
    assert list(galleries[0].paths) == [path.name for path in RUNS] and len(RUNS) == 4
    assert galleries[0].overview().run == OPENING != galleries[0].lines()[0].name
    own = ["explore", str(RUNS[-1]), "--showcase", "--port", "0"]
    assert CliRunner().invoke(app, own).exit_code == 0
    assert galleries[1].overview().run == galleries[1].lines()[0].name  # the newest, as always
