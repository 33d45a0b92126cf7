"""What runs are called, how they are found and how they are removed."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import ParameterError, RunError, RunLocked
from untwine.runs.describe import describe_runs, read_specs
from untwine.runs.directory import list_runs, read_spec
from untwine.runs.finding import find_run
from untwine.runs.names import directory_name, place_run, run_name
from untwine.runs.removing import remove_run
from untwine.tools.process import lock_directory

NUMBERS = {"network": "mlp", "latent": 2, "steps": 2, "batch": 4, "settings": ["mlp.width=4"]}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "my photos"
    folder.mkdir()
    for number in range(8):
        picture = np.random.default_rng(number).integers(0, 256, (8, 8)).astype(np.uint8)
        Image.fromarray(picture).save(folder / f"{number}.png")
    return folder


def train(data, out, **options):
    return untwine.train_run("vae", str(data), out, **{**NUMBERS, "quiet": True, **options}).path


def test_a_new_run_is_called_after_its_folder_or_file(photos, tmp_path):
    spec = untwine.plan("vae", str(photos), **NUMBERS)
    assert train(photos, tmp_path / "runs").name == f"vae-my-photos-{spec.hash}"
    np.save(tmp_path / "points.old.npy", np.random.default_rng(0).random((8, 3)))
    spec = untwine.plan("vae", str(tmp_path / "points.old.npy"), **NUMBERS)
    assert directory_name(spec, "first") == f"first-vae-points.old-{spec.hash}"
    spec = untwine.plan("vae", "sprites(size=16)", **NUMBERS)
    assert directory_name(spec) == spec.directory


def test_a_run_of_an_earlier_version_keeps_its_directory(photos, tmp_path):
    path, spec = train(photos, tmp_path / "runs"), untwine.plan("vae", str(photos), **NUMBERS)
    former = path.rename(path.with_name(spec.directory))
    assert former.name == f"vae-folder-{spec.hash}"
    assert train(photos, tmp_path / "runs") == former
    assert run_name(former, spec) == "" and untwine.open_run(former).spec.hash == spec.hash


def test_the_name_is_not_in_the_hash_and_a_run_keeps_its_own(photos, tmp_path):
    path = train(photos, tmp_path / "runs", name="first")
    spec = read_spec(path)
    assert path.name == f"first-vae-my-photos-{spec.hash}" and run_name(path, spec) == "first"
    assert train(photos, tmp_path / "runs", name="second") == path
    photos.rename(tmp_path / "album")
    assert train(tmp_path / "album", tmp_path / "runs") == path
    renamed = path.rename(path.with_name("best"))
    assert run_name(renamed, spec) == "best" and find_run("best", renamed.parent) == renamed


@pytest.mark.parametrize("name", ["", "-x", "../x", "a b", "x" * 61, ".x", "a/b", "\x1b"])
def test_a_name_that_is_no_directorys_is_refused(name, tmp_path):
    spec = untwine.plan("vae", "sprites(size=16)", **NUMBERS)
    if not name:
        assert place_run(spec, tmp_path, name).name == spec.directory
        return
    with pytest.raises(ParameterError, match="a run cannot be called"):
        untwine.run(spec, tmp_path, name=name)


def test_a_whole_name_comes_before_the_beginning_of_another(photos, tmp_path):
    out = tmp_path / "runs"
    first = train(photos, out, name="first")
    longer = train(photos, out, name="first-try", seed=1)
    assert find_run("first", out) == first and find_run("first-t", out) == longer
    with pytest.raises(RunError, match="matches first-"):
        find_run("firs", out)


def test_the_list_is_short_and_without_paths(photos, tmp_path):
    path = train(photos, tmp_path / "runs", name="first", size=4)
    untwine.evaluate_run(path, ["elbo", "reconstruction", "active-units"], n_examples=8)
    (row,) = describe_runs(read_specs(tmp_path / "runs"))
    assert row[0].startswith("first-vae-my-photos-")
    assert row[1:6] == ["vae", "my photos(size=4)", "0", "2", "finished"]
    assert "elbo" in row[6] and str(photos) not in "".join(row) and "digest" not in "".join(row)


def call(*words, code=0):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_names_a_run_and_says_when_it_has_one_already(photos, tmp_path):
    words = f"train vae {tmp_path}/photos --network mlp --set mlp.width=4 --latent 2 --steps 2"
    photos.rename(tmp_path / "photos")
    words = [*words.split(), "--batch", 4, "--out", tmp_path / "runs", "-q", "--name"]
    call(*words, "first")
    (path,) = list_runs(tmp_path / "runs")
    assert path.name.startswith("first-vae-photos-")
    assert "keeps its name; rename its directory to call it other" in call(*words, "other")
    assert list_runs(tmp_path / "runs") == [path]
    call("evaluate", "first", "--out", tmp_path / "runs", "--metrics", "elbo", "-q")


@pytest.fixture
def run(photos, tmp_path):
    return train(photos, tmp_path / "runs", name="first")


def test_rm_removes_a_run_whole(run, tmp_path):
    with pytest.raises(ParameterError, match="write --yes"):
        call("rm", "first", "--out", run.parent)
    assert run.exists()
    assert f"removed: {run}" in call("rm", "first", "--out", run.parent, "--yes")
    assert list(run.parent.iterdir()) == []


def test_rm_asks_on_a_terminal(run, monkeypatch):
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("untwine.cli.train.sys", terminal)

    def answer(text):
        return CliRunner().invoke(app, ["rm", str(run)], input=text)

    assert answer("n\n").exit_code == 1 and run.exists()
    assert answer("y\n").exit_code == 0 and not run.exists()


def test_rm_refuses_what_is_in_use_or_not_a_run_and_then_removes_nothing(run, tmp_path):
    other = shutil.copytree(run, run.parent / "other")
    with lock_directory(other), pytest.raises(RunLocked, match="is being trained"):
        call("rm", run, other, "--yes")
    (tmp_path / "photos.txt").mkdir()
    with pytest.raises(RunError, match="is not a run"):
        remove_run(tmp_path / "photos.txt")
    with pytest.raises(RunError, match="there is no run"):
        call("rm", run, "nothing", "--out", run.parent, "--yes")
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(RunError, match="is a link"):
        remove_run(tmp_path / "link")
    assert run.exists() and other.exists() and (tmp_path / "photos.txt").exists()


def test_a_removal_that_is_interrupted_leaves_no_part_of_a_run(run, monkeypatch):
    other = shutil.copytree(run, run.parent / "other")

    def die(path):
        (path / "run.json").with_name("done.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("untwine.runs.removing.shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            remove_run(run)
    assert list_runs(run.parent) == [other]
    remove_run(other)
    assert list(run.parent.iterdir()) == []


def test_a_damaged_run_can_be_removed(run):
    (run / "run.json").write_text("{")
    remove_run(run)
    assert not run.exists()
