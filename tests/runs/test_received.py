"""A received run or study acts on nothing outside its directory, unless the user says so."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import untwine
from untwine.data import files, opening
from untwine.datasets.mnist import FILES
from untwine.errors import DataError, RunError, UntwineError
from untwine.explore.gallery import Gallery
from untwine.runs.describe import describe_runs, read_specs, unmarked_runs
from untwine.runs.directory import list_runs, read_done, score_values
from untwine.runs.finding import open_trained
from untwine.runs.received import named_files
from untwine.runs.training import run
from untwine.scoring.evaluation import evaluate_run
from untwine.study.file import Study
from untwine.study.folder import list_folders, make_folder, open_folder
from untwine.study.running import run as run_study
from untwine.study.trust import trust_directory
from untwine.tools.process import is_running
from untwine.tools.sealed import read_json, write_json
from untwine.tools.trust import is_mine

NUMBERS = {"latent": 2, "batch": 8, "steps": 10, "network": "mlp", "width": 4}


@pytest.fixture
def photos(tmp_path):
    """Pictures of one's own."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(16):
        pixels = np.random.default_rng(i).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.bmp")
    return folder


@pytest.fixture
def made(photos, tmp_path):
    """A run that the sender made of the photos."""
    return run(untwine.plan("vae", str(photos), **NUMBERS), tmp_path / "runs", quiet=True)


@pytest.fixture
def received(made, tmp_path, monkeypatch):
    """The same run on another machine, whose user has another key; nothing is loaded yet."""
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "receiver"))
    opening._LOADED.clear()
    return made


def rewrite(path, data):
    """A run whose run.json names other data, with a fitting hash and seal."""
    record = read_json(path / "run.json")
    record["spec"]["data"] = data
    write_json(path / "run.json", record)
    spec = untwine.Run.from_json(record["spec"])
    write_json(path / "done.json", {**read_done(path), "hash": spec.hash})


def open_data(path, **how):
    return untwine.open_run(path, **how).data


def test_one_s_own_run_opens_its_data(made, photos):
    assert is_mine(made / "run.json") and len(untwine.open_run(made).data) == 16


def test_the_files_that_a_received_run_names_are_not_opened(received, photos, monkeypatch):
    monkeypatch.setattr(files, "existing_path", None)
    for act in (open_data, evaluate_run, untwine.write_report):
        with pytest.raises(RunError, match=f"not marked as yours.*{photos}.*untwine trust"):
            act(received)
    assert Gallery.find([received]).lines()[0].state == "finished"
    assert untwine.load(received).card.shape == (1, 8, 8)


def test_naming_the_data_or_trusting_opens_it(received, photos, tmp_path):
    assert unmarked_runs(read_specs(received.parent)) == [received]
    moved = photos.rename(tmp_path / "elsewhere")
    assert len(untwine.open_run(received, data=str(moved)).data) == 16
    with pytest.raises(DataError, match="there is no folder"):
        open_data(received, trust=True)


def test_trust_marks_a_run_once(received, photos):
    assert list(trust_directory(received.parent)) == [[str(received), str(photos)]]
    assert len(untwine.open_run(received).data) == 16 and not unmarked_runs(
        read_specs(received.parent)
    )


def test_asking_for_the_same_again_marks_an_old_run(received, photos):
    run(untwine.plan("vae", str(photos), **NUMBERS), received.parent, quiet=True)
    assert is_mine(received / "run.json")


def test_an_empty_digest_does_not_mean_any_data(received, photos):
    rewrite(received, {"name": "folder", "path": str(photos), "digest": ""})
    with pytest.raises(RunError, match="not marked as yours"):
        open_data(received)
    with pytest.raises(RunError, match="has no digest"):
        open_data(received, trust=True)


@pytest.mark.parametrize(
    "data",
    [
        {"name": "folder"},
        {"name": "array", "path": "/etc/passwd", "digest": ""},
        {"name": "held-out", "of": "array(path=/etc/passwd)"},
        {"name": "mixed", "first": "sprites", "second": "/etc"},
        {"name": "grouped", "of": "~/.ssh"},
        {"name": "scream-dsprites", "painting": "/etc/passwd"},
        {"name": "correlated", "of": "correlated(of=" * 90 + "sprites" + ")" * 90},
    ],
)
def test_no_way_of_naming_a_file_is_followed(received, data, monkeypatch):
    rewrite(received, data)
    monkeypatch.setattr(opening.datasets, "make", None)
    with pytest.raises(UntwineError, match=r"not marked as yours|letters"):
        open_data(received)
    assert describe_runs(read_specs(received.parent))


def test_a_model_folder_opens_no_file_that_it_names(received, tmp_path):
    folder = untwine.load(received).save(tmp_path / "model")
    record = read_json(folder / "model.json")
    record["card"]["data"] = "held-out(of=array(path=/etc/passwd))"
    write_json(folder / "model.json", record)
    trained = open_trained(str(folder))
    with pytest.raises(RunError, match="files that it names are not opened: /etc/passwd"):
        trained.open_data()


def test_every_parameter_that_names_a_file_is_known():
    for name, entry in opening.datasets.items():
        for key in entry.parameters:
            assert key in opening.FILE_PARAMETERS or ("path" not in key and "file" not in key)
        assert name not in ("folder", "array") or any(named_files(opening.datasets.choose(name)))


def test_opening_a_received_run_downloads_nothing(received, tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "_transfer", lambda *args: pytest.fail("a download"))
    rewrite(received, {"name": "dsprites"})
    with pytest.raises(DataError, match="is not on this machine"):
        open_data(received)


def test_an_old_received_run_takes_its_data_from_the_cache(tmp_path, monkeypatch, shared):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "_transfer", lambda *args: pytest.fail("a download"))
    for file in FILES:
        file.cache_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(shared("data/mnist") / Path(file.name).name, file.cache_path)
    made = run(untwine.plan("vae", "mnist", **{**NUMBERS, "steps": 1}), tmp_path, quiet=True)
    record = read_json(made / "run.json")
    record.pop("card")  # as version 0.1 wrote it
    write_json(made / "run.json", record)
    assert not is_mine(made / "run.json")
    opening._LOADED.clear()
    assert untwine.load(made).card.shape == (1, 28, 28) and len(open_data(made)) == 60_000


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", [".owner", ".lock"])
def test_a_lock_is_no_way_out(tmp_path, name, link):
    spec = untwine.plan("vae", "sprites", size=16, **NUMBERS)
    path = run(spec, tmp_path / "runs", quiet=True)
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (path / name).unlink(missing_ok=True)
    link(mine, path / name)
    assert link is os.link or not is_running(path)
    if name == ".lock":
        with pytest.raises(RunError, match="is a link"):
            evaluate_run(path, ["mig"], n_examples=50)
    else:
        evaluate_run(path, ["mig"], n_examples=50)
        assert not os.path.lexists(path / ".owner")
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("owner", [b"\0", b"process 99999999999 on x", b"\xff" * 100, b"x" * 9999])
def test_any_owner_can_be_asked_for(tmp_path, owner):
    (tmp_path / ".owner").write_bytes(owner)
    is_running(tmp_path)


def test_a_directory_that_is_a_link_is_listed_and_not_followed(made, tmp_path):
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "link").symlink_to(made)
    assert "is a link" in describe_runs(read_specs(tmp_path / "got"))[0][5]
    with pytest.raises(RunError, match="is a link"):
        untwine.open_run(tmp_path / "got" / "link")


def test_states_behind_a_link_are_not_written(tmp_path):
    spec = untwine.plan("vae", "sprites", size=16, **NUMBERS)
    path = tmp_path / "runs" / spec.directory
    path.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (path / "states").symlink_to(tmp_path / "other")
    with pytest.raises(RunError, match="is a link"):
        run(spec, tmp_path / "runs", quiet=True)


def test_a_bad_run_takes_no_other_down(made):
    other = Path(shutil.copytree(made, made.with_name("other")))
    for content in ('{"spec": []}', "[" * 9999, '{"spec": {"model": [3]}}', "\0", "{}"):
        (other / "run.json").write_text(content)
        rows = {row[0]: row[5] for row in describe_runs(read_specs(made.parent))}
        assert rows[made.name] == "finished" and rows["other"].startswith("unreadable: ")
        lines = {line.name: line.state for line in Gallery.find([], made.parent).lines()}
        assert lines[made.name] == "finished" and lines["other"].startswith("unreadable: ")


def test_a_run_that_disappears_is_left_out(made, monkeypatch):
    shutil.copytree(made, made.with_name("gone"))
    lstat = os.lstat

    def vanish(path, **options):
        if Path(path).parent.name == "gone":
            raise FileNotFoundError(path)
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", vanish)
    assert list_runs(made.parent) == [made]


# Studies


@pytest.fixture
def study(tmp_path):
    spec = untwine.plan("vae", "sprites", size=16, **NUMBERS)
    return Study("small", (spec,), ("mig",), 50)


def test_a_place_is_followed_in_a_study_of_one_s_own_alone(study, tmp_path, monkeypatch):
    folder = make_folder(study, tmp_path / "studies", storage=str(tmp_path / "place"))
    assert open_folder(folder.path).runs == tmp_path / "place"
    assert make_folder(study, tmp_path / "studies").storage == str(tmp_path / "place")
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "receiver"))
    with pytest.raises(RunError, match=r"not marked as yours.*untwine trust"):
        open_folder(folder.path)
    with pytest.raises(RunError, match="not marked as yours"):
        make_folder(study, tmp_path / "studies")
    assert not (tmp_path / "place").exists()
    list(trust_directory(folder.path))
    assert open_folder(folder.path).runs == tmp_path / "place"


def test_a_received_study_asks_no_address(study, tmp_path, monkeypatch, capsys):
    folder = make_folder(study, tmp_path / "studies", storage="memory://runs")
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "receiver"))
    monkeypatch.setattr("untwine.study.folder.pull", lambda *args: pytest.fail("a call"))
    received = open_folder(folder.path)
    received.refresh()
    assert "not marked as yours" in capsys.readouterr().err
    with pytest.raises(RunError, match="not marked as yours"):
        run_study(received, backend="ray", quiet=True)


def test_the_runs_of_a_received_study_are_no_link(study, tmp_path, monkeypatch):
    folder = make_folder(study, tmp_path / "studies")
    (folder.path / "runs").symlink_to(tmp_path)
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "receiver"))
    with pytest.raises(RunError, match="not marked as yours"):
        open_folder(folder.path)


@pytest.mark.parametrize(
    "content",
    ["[", '{"study": 3}', '{"about": []}', '{"runs": [{"model": "x"}]}', "[" * 99_999, "\0"],
)
def test_a_bad_study_takes_no_other_down(study, tmp_path, content, capsys):
    from untwine.cli.study import list_studies

    good = make_folder(study, tmp_path / "studies").path
    bad = Path(shutil.copytree(good, good.with_name("bad")))
    (bad / "study.json").write_text(content)
    assert list_folders(tmp_path / "studies") == [bad, good]
    list_studies(tmp_path / "studies")
    lines = [line for line in capsys.readouterr().out.splitlines() if "studies" in line]
    assert any("unreadable" in line and "bad" in line for line in lines)
    assert any("1 waiting" in line for line in lines)


def test_a_study_marks_what_its_workers_made(study, tmp_path):
    folder = make_folder(study, tmp_path / "studies")
    run_study(folder, workers=1, quiet=True)
    (job,) = folder.jobs()
    assert is_mine(job.path / "run.json") and score_values(job.path)
    assert json.loads((job.path / "run.json").read_text())["format"] == 2
