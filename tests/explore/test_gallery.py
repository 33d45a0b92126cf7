"""Which runs may be looked at, and what is said of all of them."""

import json
import shutil
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

import pytest

from untwine.errors import ParameterError, RunError
from untwine.explore import summaries
from untwine.explore.gallery import Gallery
from untwine.runs.directory import read_spec
from untwine.study.file import Study
from untwine.study.folder import make_folder
from untwine.tools.sealed import read_json, write_json


@pytest.fixture
def copied(explored, tmp_path):
    """A directory of runs that may be spoilt."""
    shutil.copytree(explored[0], tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def study(explored, tmp_path):
    """A study of two runs that are scored and one that never was."""
    paths = explored[1]
    specs = [read_spec(paths[kind]) for kind in ("plain", "grouped", "clustered")]
    plan = Study("three", tuple(specs), ("mig",), 200, "Three runs.")
    folder = make_folder(plan, tmp_path / "studies")
    for kind, mig in (("plain", 0.25), ("grouped", 0.5)):
        path = folder.runs / paths[kind].name
        shutil.copytree(paths[kind], path)
        values = {"values": {"mig": mig}, "references": {}, "params": {}, "examples": 9, "seed": 0}
        write_json(path / "scores.json", {"mig": values})
    return folder


def names(*arguments, out):
    return sorted(Gallery.find(arguments, out).paths)


def test_runs_are_found_by_path_name_part_and_directory(explored, tmp_path):
    out, paths = explored
    every = sorted(path.name for path in paths.values())
    plain = paths["plain"].name
    assert names(out=out) == names(out, out=tmp_path) == names("-", out=out) == every
    assert names(paths["plain"], out=tmp_path) == [plain]
    assert names("beta-tc", out=out) == names("tcvae", out=out) == names(plain, out=out) == [plain]
    assert names("sprites", out=out) == sorted(n for n in every if "sprites" in n)
    assert names(plain, "tcvae", paths["plain"], out=out) == [plain]  # each once


def test_runs_inside_a_directory_of_a_paper_are_found(explored, tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "runs").symlink_to(explored[0])
    assert len(Gallery.find([tmp_path / "paper"], tmp_path).paths) == 3


def test_what_is_not_there_is_told(explored, tmp_path):
    with pytest.raises(RunError, match="no run 'nothing'"):
        Gallery.find(["nothing"], explored[0])
    with pytest.raises(RunError, match="there are no runs in"):
        Gallery.find([], tmp_path / "nowhere")
    place = Gallery.find([], explored[0])
    for name in ("../" + place.lines()[0].name, "", "/etc", "."):
        with pytest.raises(ParameterError, match="there is no run"):
            place.view(name)


def test_equal_names_are_told_apart(explored, copied):
    plain = explored[1]["plain"]
    place = Gallery.find([plain, copied / plain.name], copied)
    assert list(place.paths) == [plain.name, f"{plain.name}-2"]
    looks = [place.view(name) for name in place.paths]
    assert [look.name for look in looks] == list(place.paths)
    assert looks[0].trained.path != looks[1].trained.path


def test_lines_say_what_runs_are(explored):
    lines = {line.name: line for line in Gallery.find([], explored[0]).lines()}
    line = lines[explored[1]["plain"].name]
    assert (line.model, line.data) == ("beta-tcvae(beta=4.0)", "sprites(size=16)")
    assert (line.seed, line.steps, line.state) == (0, 60, "finished")
    assert {"mig", "reconstruction.squared_error"} <= set(line.scores)


def test_lines_follow_what_happens(copied):
    place = Gallery.find([], copied)
    first, second, third = place.lines()
    scores = copied / second.name / "scores.json"
    (copied / first.name / "done.json").unlink()
    values = {"values": {"mig": 0.75}, "references": {}, "params": {}, "examples": 9, "seed": 0}
    write_json(scores, {"mig": values})
    (copied / third.name / "model.safetensors").unlink()
    lines = place.lines()
    assert lines[0].state == "stopped at 0 %" and lines[1].scores == {"mig": 0.75}
    assert lines[2].state == "finished, weights stored elsewhere"
    scores.write_text("{")
    (copied / third.name / "run.json").write_text("nonsense")
    lines = place.lines()
    assert lines[1].scores == {} and "scores.json is damaged" in lines[1].problem
    assert lines[2].state.startswith("unreadable: run.json is damaged")
    states = [row[4] for row in place.study().rows]
    assert states[::2] == [line.state for line in lines[::2]]
    assert states[1] == f"finished; {lines[1].problem}"
    assert place.study().runs == ["", second.name, ""]
    for name in (first.name, third.name):
        with pytest.raises(RunError):
            place.view(name)


def test_paths_of_own_data_are_not_shown(copied):
    run = next(path for path in copied.iterdir() if path.name.startswith("beta"))
    record = read_json(run / "run.json")
    record["spec"]["data"] = {"name": "array", "path": "/home/somebody/faces.npy", "digest": "ab"}
    write_json(run / "run.json", record)
    (line,) = Gallery.find([run], copied).lines()
    assert line.data == "faces.npy"


def test_looks_are_opened_once_and_a_few_are_kept(explored, monkeypatch):
    from untwine.explore import gallery as module

    opened = []
    original = module.open_run
    monkeypatch.setattr(module, "open_run", lambda p, **how: opened.append(p) or original(p, **how))
    monkeypatch.setattr(module, "MAX_OPEN_VIEWS", 2)
    place = Gallery.find([], explored[0])
    first, second, third = place.paths
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(place.view, [first] * 12))) == 1
    assert len(opened) == 1
    for name in (second, third, first):
        place.view(name)
    assert len(opened) == 4


def test_all_runs_are_a_table(explored):
    place = Gallery.find([], explored[0])
    study = place.study()
    assert study.title == "All runs" and place.figures() == []
    assert study.columns[:5] == ["model", "data", "seed", "steps", "state"]
    assert all(len(row) == len(study.columns) for row in study.rows)
    assert sorted(study.runs) == sorted(path.name for path in explored[1].values())
    mig = study.columns.index("mig")
    assert sum(row[mig] is None for row in study.rows) == 2


def test_a_study_has_its_table_and_figures(study):
    place = Gallery.find([study.path], "nowhere")
    found = place.study()
    assert found.title == "three" and len(found.rows) == 2
    assert all(run in place.paths for run in found.runs)
    assert {row[found.columns.index("mig")] for row in found.rows} == {0.25, 0.5}
    assert "run" not in found.columns
    figures = place.figures()
    assert "by-model" in [one.name for one in figures] and figures[0].note
    for one in figures:
        assert ET.fromstring(place.figure(one.name)).tag.endswith("svg")
    with pytest.raises(ParameterError, match=r"no figure '\.\./by-model'"):
        place.figure("../by-model")


def test_a_study_follows_its_runs(study):
    place = Gallery.find([study.path], "nowhere")
    before = place.study()
    scores = study.runs / before.runs[0] / "scores.json"
    kept = json.loads(scores.read_text())
    kept["mig"]["values"]["mig"] = 0.75
    write_json(scores, kept)
    assert place.study().rows != before.rows
    scores.unlink()
    assert len(place.study().rows) == 1


def test_a_study_without_scores_is_a_table_of_its_runs(study):
    for file in study.runs.glob("*/scores.json"):
        file.unlink()
    place = Gallery.find([study.path], "nowhere")
    found = place.study()
    assert found.title == "three" and len(found.rows) == 2 and place.figures() == []


def test_a_study_is_found_by_name_and_beside_runs_is_a_table(study, explored, monkeypatch):
    monkeypatch.chdir(study.path.parent.parent)
    assert Gallery.find(["three"], "nowhere").study().title == "three"
    both = Gallery.find(["three", explored[1]["clustered"]], "nowhere")
    assert both.study().title == "All runs" and len(both.lines()) == 3
    with pytest.raises(ParameterError, match="there are none here"):
        both.figure("by-model")


def test_nothing_is_written_into_runs(explored):
    def files():
        return {path: path.stat().st_mtime_ns for path in explored[0].rglob("*") if path.is_file()}

    before = files()
    place = Gallery.find([], explored[0])
    place.study()
    look = place.view(explored[1]["plain"].name)
    look.summary(), look.factors(), look.sheet(), look.reconstructions(3, "worst", 0)
    assert files() == before


def test_scores_that_are_unreliable_are_marked(monkeypatch, tmp_path):
    values = {"log_likelihood": -9.0, "bits_per_dimension": 1.0, "effective_draws": 2.0}
    stored = {"log-likelihood": {"values": values, "references": {}}}
    monkeypatch.setattr(summaries, "read_scores", lambda path: stored)
    lines = summaries.score_lines(tmp_path)
    assert [line.title.endswith("(unreliable)") for line in lines] == [True] * 3
    values["effective_draws"] = 20.0
    assert not any("unreliable" in line.title for line in summaries.score_lines(tmp_path))
