"""Which runs may be looked at, and what is said of all of them."""

import json
import os
import shutil
import socket
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import untwine
from untwine.errors import ParameterError, RunError
from untwine.explore import summaries
from untwine.explore.gallery import Gallery
from untwine.runs.directory import read_spec
from untwine.study.file import Study
from untwine.study.folder import make_folder
from untwine.tools.sealed import read_json, write_json

RECORD = {"how": {"device": "cpu", "threads": 1, "compile": "no"}, "versions": {}}


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


def column(table, name):
    """The values of a column of a table of runs."""
    number = [one.name for one in table.columns].index(name)
    return [row[number] for row in table.rows]


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


def test_names_that_are_not_utf_8_are_shown_by_their_bytes(explored, tmp_path):
    for name in ("\udcff", "\udcfe-broken"):
        shutil.copytree(explored[1]["plain"], tmp_path / name)
    (tmp_path / "\udcfe-broken" / "run.json").write_text("{")
    place = Gallery.find([], tmp_path)
    assert set(place.paths) == {"\\xff", "\\xfe-broken"}
    place.study().model_dump_json()
    for line in place.lines():
        line.model_dump_json()
    assert place.view("\\xff").name == "\\xff"


def test_lines_say_what_runs_are(explored):
    lines = {line.name: line for line in Gallery.find([], explored[0]).lines()}
    line = lines[explored[1]["plain"].name]
    assert (line.model, line.data) == ("beta-tcvae(beta=4.0)", "sprites(size=16)")
    assert (line.seed, line.steps, line.state) == (0, 60, "finished")
    assert {"mig", "reconstruction.squared_error"} <= set(line.scores)


def test_lines_follow_what_happens(copied):
    place = Gallery.find([], copied)
    first, second, third = place.lines()

    def follow():
        lines = {line.name: line for line in place.lines()}
        return [lines[one.name] for one in (first, second, third)]

    scores = copied / second.name / "scores.json"
    (copied / first.name / "done.json").unlink()
    values = {"values": {"mig": 0.75}, "references": {}, "params": {}, "examples": 9, "seed": 0}
    write_json(scores, {"mig": values})
    (copied / third.name / "model.safetensors").unlink()
    lines = follow()
    assert [line.phase for line in lines] == ["stopped", "finished", "elsewhere"]
    assert lines[0].state == "stopped at 0 %" and lines[1].scores == {"mig": 0.75}
    assert lines[2].state == "finished, weights stored elsewhere"
    scores.write_text("{")
    (copied / third.name / "run.json").write_text("nonsense")
    lines = follow()
    assert lines[1].scores == {} and "scores.json is damaged" in lines[1].problem
    assert lines[2].state.startswith("unreadable: run.json is damaged")
    states = column(place.study(), "state")
    assert {line.state for line in lines[::2]} <= set(states)
    assert f"finished; {lines[1].problem}" in states
    assert sorted(place.study().runs) == sorted(["", first.name, second.name])
    for name in (first.name, third.name):
        with pytest.raises(RunError):
            place.view(name)


def test_the_newest_run_is_first_and_opens(copied):
    place = Gallery.find([], copied)
    first, second, third = (line.name for line in place.lines())
    for year, name in enumerate((first, third, second), 2020):
        done = read_json(copied / name / "done.json")
        write_json(copied / name / "done.json", {**done, "finished": f"{year}-01-01T00:00:00"})
    assert [line.name for line in place.lines()] == [second, third, first]
    assert (place.overview().view, place.overview().run) == ("latents", second)
    (copied / first / "done.json").unlink()  # started just now, and not finished
    assert [line.name for line in place.lines()] == [first, second, third]
    assert place.overview().run == second
    for path in copied.glob("*/done.json"):
        path.unlink()
    assert place.overview().view == "curves" and place.overview().run == place.lines()[0].name


def test_runs_that_begin_later_appear_and_those_removed_go(explored, tmp_path, monkeypatch):
    from untwine.explore import gallery as module

    monkeypatch.setattr(module, "FIND_INTERVAL", 0.0)
    plain, *others = explored[1].values()
    shutil.copytree(plain, tmp_path / "runs" / plain.name)
    place = Gallery.find([], tmp_path / "runs")
    named = Gallery.find(["beta-tc"], tmp_path / "runs")
    for path in others:
        shutil.copytree(path, tmp_path / "runs" / path.name)
    assert len(place.lines()) == 3 and len(named.lines()) == 1
    place.view(others[0].name)
    shutil.rmtree(tmp_path / "runs" / plain.name)
    assert {line.name for line in place.lines()} == {path.name for path in others}


def test_labels_tell_runs_apart(explored, tmp_path):
    out = tmp_path / "runs"
    spec = read_spec(explored[1]["plain"])
    for seed, latent in ((0, 5), (1, 5), (1, 4)):
        other = replace(spec, seed=seed, latent=latent)
        (out / other.directory).mkdir(parents=True)
        write_json(out / other.directory / "run.json", {**RECORD, "spec": other.to_json()})
    twin = out / "copy-of-one"
    shutil.copytree(out / other.directory, twin)
    labels = {line.label for line in Gallery.find([], out).lines()}
    assert labels == {
        "β-TCVAE beta=4.0 · seed 0 · latent=5",
        "β-TCVAE beta=4.0 · seed 1 · latent=5",
        "β-TCVAE beta=4.0 · seed 1 · latent=4",
        "copy-of-one · β-TCVAE beta=4.0 · seed 1 · latent=4",
    }
    larger = replace(spec, data=replace(spec.data, params={**spec.data.params, "size": 32}), lr=0.5)
    (out / larger.directory).mkdir()
    write_json(out / larger.directory / "run.json", {**RECORD, "spec": larger.to_json()})
    lines = {line.name: line for line in Gallery.find([], out).lines()}
    assert lines[larger.directory].label == "β-TCVAE beta=4.0 · seed 0"  # alone on its data
    assert labels < {line.label for line in lines.values()}
    shutil.copytree(twin, tmp_path / "elsewhere" / other.directory)
    both = Gallery.find([out / other.directory, tmp_path / "elsewhere"], out)
    assert len({line.label for line in both.lines()}) == 2


def test_curves_of_a_finished_run_leave_out_constants_of_estimators(explored):
    place = Gallery.find([], explored[0])
    name = explored[1]["plain"].name
    curves, trained = place.curves(name), place.view(name).trained
    assert curves.steps == [10, 20, 30, 40, 50, 60] and curves.validation == {}
    assert set(curves.training) == {"loss", "nll", "kl", "tc"} and "tc is shown" in curves.note
    shown = [row["tc"] for row in trained.shown_history()]
    assert curves.training["tc"] == pytest.approx(shown, rel=1e-4)
    assert max(shown) < min(row["tc"] for row in trained.history)
    assert curves.run.phase == "finished" and curves.run.step == 60
    with pytest.raises(ParameterError, match="there is no run"):
        place.curves("nothing")


def test_curves_of_runs_that_are_not_finished(explored, copied):
    place = Gallery.find([], copied)
    path = copied / explored[1]["plain"].name
    rows = untwine.open_run(path).history
    for name in ("done.json", "history.csv", "model.safetensors"):
        (path / name).unlink()
    assert place.curves(path.name).steps == [] and place.curves(path.name).run.phase == "stopped"
    progress = {"step": 30, "steps": 60, "seconds": 12.0, "history": list(rows)[:3]}
    write_json(path / "progress.json", progress)
    (path / ".owner").write_text(f"process {os.getpid()} on {socket.gethostname()}")
    curves = place.curves(path.name)
    assert curves.steps == [10, 20, 30] and curves.run.phase == "running"
    assert (curves.run.state, curves.run.seconds_left) == ("running at 50 %", 12.0)
    assert curves.training["tc"][0] < rows[0]["tc"] - 5
    (path / ".owner").unlink()
    write_json(path / "failed.json", {"attempts": 1, "reason": "Traceback ...\nloss became NaN"})
    curves = place.curves(path.name)
    assert (curves.run.phase, curves.run.reason) == ("failed", "loss became NaN")
    (row,) = (row for row in place.study().rows if "loss became NaN" in str(row))
    assert any("failed at" in str(cell) for cell in row)


def test_a_study_opens_on_itself_and_counts_waiting_runs(study):
    place = Gallery.find([study.path], "nowhere")
    overview = place.overview()
    assert (overview.view, overview.title, overview.waiting) == ("study", "three", 1)
    about = " ".join(place.study().about)
    assert "2 of 3 runs" in about and "waiting" in about and "finished" not in about


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
    assert study.title == "All runs" and place.sections() == []
    assert [one.name for one in study.columns][:2] == ["run", "mig"]
    assert all(len(row) == len(study.columns) for row in study.rows)
    assert study.runs == [line.name for line in place.lines()]
    assert column(study, "mig").count(None) == 2
    hidden = [one.name for one in study.columns if not one.shown]
    assert "state" in hidden and "reconstruction.cross_entropy" in hidden


def test_a_study_has_its_table_and_figures(study):
    place = Gallery.find([study.path], "nowhere")
    found = place.study()
    assert found.title == "three" and len(found.rows) == 2
    assert all(run in place.paths for run in found.runs)
    assert set(column(found, "mig")) == {0.25, 0.5}
    assert column(found, "setting") == ["β-TCVAE", "UG-VAE"]
    assert column(found, "set.beta") == [4.0, None]
    (mig,) = [one for one in found.columns if one.name == "mig"]
    assert (mig.title, mig.kind, mig.decimals, mig.better) == ("MIG", "score", 3, "higher")
    sections = {one.name: one for one in place.sections()}
    assert sections["learned"].points and sections["recommendations"].header
    assert sections["table"].best and sections["by-model"].figure
    for one in filter(lambda one: one.figure, sections.values()):
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
    assert found.title == "three" and len(found.rows) == 2 and place.sections() == []


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
    look.summary(), look.factors(), look.sheet(), look.reconstructions(3, "worst")
    assert files() == before


def test_scores_that_are_unreliable_are_marked(monkeypatch, tmp_path):
    values = {"log_likelihood": -9.0, "bits_per_dimension": 1.0, "effective_draws": 2.0}
    stored = {"log-likelihood": {"values": values, "references": {}}}
    monkeypatch.setattr(summaries, "read_scores", lambda path: stored)
    lines = summaries.score_lines(tmp_path)
    assert all("unreliable" in line.note for line in lines) and len(lines) == 3
    values["effective_draws"] = 20.0
    assert not any("unreliable" in line.title for line in summaries.score_lines(tmp_path))
