"""Nothing is lost where the disk fails or the process is killed at any change of a file."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest

import untwine
from untwine.data.cache import cached_arrays
from untwine.errors import UntwineError
from untwine.explore import export, recording
from untwine.explore.gallery import Gallery
from untwine.runs.directory import is_finished, open_run, read_scores, score_values
from untwine.scoring.evaluation import evaluate_run
from untwine.study.file import Study
from untwine.study.folder import make_folder, open_folder
from untwine.study.job import Job, finish_job, is_complete
from untwine.study.remote import synced
from untwine.study.table import results_table
from untwine.tools.files import sha256
from untwine.tools.weights import pack_weights

FAULTS = ("kill", "torn", "ENOSPC", "EIO")
SMALL = {"network": "mlp", "batch": 4, "latent": 2, "lr": 1e-3}
every_fault = pytest.mark.parametrize("fault", FAULTS)
some_points = pytest.mark.parametrize(
    "points", [4, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"]
)


@pytest.fixture(scope="module")
def spec():
    return untwine.plan("vae", "sprites(size=16)", steps=4, **SMALL)


@pytest.fixture(scope="module")
def trained(spec, tmp_path_factory):
    """The run, trained without a fault."""
    return untwine.run(spec, tmp_path_factory.mktemp("trained"), quiet=True, threads=1)


def result(path):
    """What a run is about: weights and history."""
    return [sha256((path / name).read_bytes()) for name in ("model.safetensors", "history.csv")]


@every_fault
@some_points
def test_a_run_ends_as_if_nothing_had_happened(
    at_every_change, tmp_path, spec, trained, fault, points
):
    def prepare(name):
        out = tmp_path / name
        how = {"checkpoint_every": 2, "quiet": True, "threads": 1}
        return out / spec.directory, lambda: untwine.run(spec, out, **how)

    def after(path, error):
        if error is None or is_finished(path):
            assert result(path) == result(trained)
            open_run(path)

    at_every_change(prepare, after, fault, points)


@every_fault
@some_points
def test_scores_are_the_old_or_the_new_ones(at_every_change, tmp_path, trained, fault, points):
    import shutil

    def prepare(name):
        path = tmp_path / name / trained.name
        shutil.copytree(trained, path)
        evaluate_run(path, ["modularity"], n_examples=40)
        return path, lambda: evaluate_run(path, ["mig", "modularity"], n_examples=40)

    values = {}

    def after(path, error):
        stored = score_values(path)
        assert set(stored) in ({"modularity"}, {"modularity", "mig"})
        assert error or set(stored) == {"modularity", "mig"}
        values.update({name: stored[name] for name in stored if name not in values})
        assert all(stored[name] == values[name] for name in stored)

    at_every_change(prepare, after, fault, points)


@every_fault
@some_points
def test_a_study_keeps_its_runs(at_every_change, tmp_path, spec, monkeypatch, fault, points):
    monkeypatch.setattr("untwine.study.job.N_STORED_CODES", 40)

    def prepare(name):
        study = Study("study", (spec,), ("modularity", "udr"), examples=40)
        more = Study("study", (spec, replace(spec, seed=1)), ("modularity", "udr"), examples=40)
        path = make_folder(study, tmp_path / name).path

        def work():
            folder = make_folder(more, tmp_path / name)
            finish_job(folder.jobs()[0])

        return path, work

    def after(path, error):
        folder = open_folder(path)  # the old plan or the new one
        assert len(folder.jobs()) in (1, 2)
        if error is None:
            assert len(folder.jobs()) == 2 and is_complete(folder.jobs()[0])
            assert len(results_table(folder)) == 1

    at_every_change(prepare, after, fault, points)


@every_fault
def test_the_cache_is_whole_or_made_again(at_every_change, tmp_path, monkeypatch, fault):
    arrays = {"images": np.arange(60, dtype=np.uint8), "factors": np.arange(4)}

    def prepare(name):
        place = tmp_path / name

        def work():
            monkeypatch.setenv("UNTWINE_DATA", str(place))
            return cached_arrays("digits", "0123", lambda: arrays)

        return place, work

    def after(place, error):
        if error is None:
            monkeypatch.setenv("UNTWINE_DATA", str(place))
            stored = cached_arrays("digits", "0123", lambda: pytest.fail("made again"))
            assert all(np.array_equal(stored[name], arrays[name]) for name in arrays)

    at_every_change(prepare, after, fault)


@every_fault
@some_points
def test_an_exported_copy_is_the_old_or_the_new_one(
    at_every_change, tmp_path, trained, monkeypatch, fault, points
):
    gallery, index = Gallery.find([str(trained)], tmp_path), [0]
    monkeypatch.setattr(
        recording, "picture_addresses", lambda copy, base: [f"{base}/image.png?index={index[0]}"]
    )

    def prepare(name):
        index[0] = 0
        export.write_copy(gallery, tmp_path / name, quiet=True)

        def work():
            index[0] = 1
            export.write_copy(gallery, tmp_path / name, quiet=True)

        return tmp_path / name, work

    def after(place, error):
        text = (place / "index.html").read_text()
        sources = re.findall(r'(?:src|href)="((?:page|data)[^"#]*)"', text)
        assert len(sources) > 10 and all((place / source).is_file() for source in sources)
        (data,) = (source for source in sources if source.startswith("data"))
        content = json.loads((place / data).read_text().partition(" = ")[2].rstrip(";\n"))
        ((address, picture),) = (
            pair for pair in content["pictures"].items() if "image.png" in pair[0]
        )
        assert (place / picture).read_bytes().startswith(b"\x89PNG")
        assert error or address.endswith("index=1")
        assert error or len(list(place.iterdir())) == 4

    at_every_change(prepare, after, fault, points)


@every_fault
@some_points
def test_a_run_at_an_address_is_whole_and_mended(
    at_every_change, tmp_path, spec, trained, fault, points
):
    """Files there are whole; a finished run is scored; a restart goes on."""

    def prepare(name):
        there, job = tmp_path / name, Job(spec, str(tmp_path / "none"), ("modularity",), 40)

        def work():
            with synced(f"file://{there}", job) as here:
                finish_job(here)

        return there / spec.directory, work

    def after(path, error):
        if is_finished(path):
            assert result(path) == result(trained) and "modularity" in read_scores(path)
        assert error or is_finished(path)

    at_every_change(prepare, after, fault, points)


@pytest.mark.parametrize("name", ["run.json", "done.json", "scores.json", "model.safetensors"])
def test_a_file_torn_at_an_address_is_made_again(tmp_path, spec, trained, capsys, name):
    job = Job(spec, str(tmp_path / "none"), ("modularity",), 40)
    address, path = f"file://{tmp_path / 'there'}", tmp_path / "there" / spec.directory
    with synced(address, job) as here:
        finish_job(here)
    content = (path / name).read_bytes()
    (path / name).write_bytes(content[: len(content) // 2])
    with synced(address, job) as here:
        finish_job(here)
    assert "is made again" in capsys.readouterr().err
    assert result(path) == result(trained) and "modularity" in read_scores(path)
    assert open_run(path).spec == spec


def test_two_drivers_of_one_study_do_each_run_once(tmp_path, spec):
    """Both end well; a run that one of them works on is left to it."""
    import threading

    from untwine.study.running import run

    runs = tuple(replace(spec, seed=seed, steps=40) for seed in range(4))
    folders = [make_folder(Study("study", runs, ("modularity",), 40), tmp_path) for _ in range(2)]
    outcomes, errors = [], []

    def drive(folder):
        try:
            outcomes.append(run(folder, workers=1, quiet=True))
        except UntwineError as error:
            errors.append(error)

    drivers = [threading.Thread(target=drive, args=(folder,)) for folder in folders]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(300)
    assert not errors and not any(outcome.failed for outcome in outcomes)
    assert all(map(is_complete, folders[0].jobs()))
    alone = untwine.run(runs[0], tmp_path / "alone", quiet=True, threads=1)
    assert result(folders[0].jobs()[0].path) == result(alone)
    assert len(results_table(folders[0])) == 4


def test_old_temporary_files_of_a_study_are_removed(tmp_path, spec):
    path = make_folder(Study("study", (spec,), ()), tmp_path).path
    old, new = path / ".study.json.0123.tmp", path / "..mark.0123.tmp"
    for file in (old, new):
        file.write_bytes(b"x")
    os.utime(old, (0, 0))
    make_folder(Study("study", (spec,), ()), tmp_path)
    assert not old.exists() and new.exists()


@every_fault
def test_a_model_folder_is_the_old_or_the_new_model_or_refused(at_every_change, tmp_path, fault):
    """A folder whose replacement was cut off is never a mixture, and is mended by the next one."""
    data = untwine.from_arrays(np.zeros((4, 8, 8)))
    models = [untwine.build("vae", data, latent=2, network="mlp", seed=seed) for seed in (0, 1)]
    weights = [sha256(pack_weights(model)) for model in models]

    def prepare(name):
        models[0].save(tmp_path / name)
        return tmp_path / name, lambda: models[1].save(tmp_path / name)

    def after(place, error):
        try:
            opened = sha256(pack_weights(untwine.load(place)))
        except UntwineError as refusal:
            assert error and "copy the folder again" in str(refusal)
        else:
            assert opened in (weights if error else weights[1:])

    at_every_change(prepare, after, fault)
