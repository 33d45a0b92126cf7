"""The cache: changed arrays and notes are made again; folders count by their content."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import untwine
from untwine.catalogue.data import check as check_dataset
from untwine.data import cache as cache_module
from untwine.data import opening
from untwine.data.cache import CONTENT_PREFIX, cached_arrays, checksum
from untwine.data.pictures import open_tree
from untwine.errors import DataError
from untwine.runs.training import resumable, run
from untwine.study.check import check_files
from untwine.tools.sealed import write_json

ARRAYS = {"images": np.arange(64, dtype=np.uint8).reshape(4, 4, 4), "labels": np.arange(4)}
MODELS = ("aa0", "bb1", "cc2")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    opening._LOADED.clear()
    return tmp_path / "cache"


def read(calls=None):
    def make():
        if calls is not None:
            calls.append(1)
        return ARRAYS

    return cached_arrays("toy", "0123", make)


@pytest.mark.parametrize("name", ["images.npy", "labels.npy", "arrays.json"])
def test_any_change_of_a_decoded_copy_is_noticed_and_mended(cache, name, capsys):
    read()
    file = cache / "toy-0123" / name
    content, rng = file.read_bytes(), random.Random(0)
    for _ in range(20):
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        assert any(finding.is_damaged for finding in check_files(cache))
        calls = []
        arrays = read(calls)
        assert calls and "is decoded again" in capsys.readouterr().err
        assert all(np.array_equal(arrays[key], ARRAYS[key]) for key in ARRAYS)


def test_a_whole_copy_is_read_once_and_then_known(cache, monkeypatch):
    read()
    monkeypatch.setattr(cache_module, "hash_stream", None)
    assert np.array_equal(read()["images"], ARRAYS["images"])


def test_a_copy_of_an_older_version_is_sealed(cache):
    read()
    folder = cache / "toy-0123"
    (folder / "arrays.json").write_text(json.dumps(list(ARRAYS)))
    calls = []
    assert np.array_equal(read(calls)["images"], ARRAYS["images"]) and not calls
    assert json.loads((folder / "arrays.json").read_text())["format"] == 2


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/passwd"])
def test_a_list_names_no_file_elsewhere(cache, name):
    read()
    write_json(cache / "toy-0123" / "arrays.json", {"arrays": {name: "0" * 64}})
    calls = []
    read(calls)
    assert calls


def test_a_changed_note_of_a_checksum_is_not_believed(cache, tmp_path):
    file = tmp_path / "data.bin"
    file.write_bytes(b"content")
    before = checksum(file)
    (note,) = (cache / "checksums").iterdir()
    content = note.read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1
        note.write_bytes(changed)
        assert checksum(file) == before


def test_a_replaced_file_of_the_same_size_and_time_is_noticed(tmp_path):
    file = tmp_path / "data.bin"
    file.write_bytes(b"content")
    before, times = checksum(file), file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert checksum(file) != before


def paint(folder, shade):
    """Three chairs from two sides, files of the same size whatever the shade."""
    for k, model in enumerate(MODELS):
        for azimuth in (11, 24):
            path = folder / model / "renders" / f"image_{azimuth:03}_p020_t{azimuth:03}_r096.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            colour = (255, 255, 255) if shade == 255 else (shade, 40 * k, azimuth)
            Image.new("RGB", (600, 600), colour).save(path, compress_level=0)
    return folder


@pytest.fixture
def chairs(tmp_path):
    return paint(tmp_path / "rendered_chairs", 10)


def plan(folder):
    opening._LOADED.clear()
    numbers = {"latent": 2, "batch": 2, "steps": 2, "network": "mlp", "width": 4}
    return untwine.plan("vae", "chairs3d", path=str(folder), split="all", size=16, **numbers)


def former(spec):
    """The run as version 0.1 named it."""
    with open_tree(Path(spec.data.params["path"])) as tree:
        data = replace(spec.data, params={**spec.data.params, "digest": tree.former_digest})
    return replace(spec, data=data)


def test_pictures_of_equal_size_are_told_apart(chairs):
    before, images = plan(chairs), untwine.dataset("chairs3d", path=str(chairs), size=16).take([0])
    assert before.data.params["digest"].startswith(CONTENT_PREFIX)
    paint(chairs, 255)
    after = plan(chairs)
    assert after.hash != before.hash
    assert not np.array_equal(
        images, untwine.dataset("chairs3d", path=str(chairs), size=16).take([0])
    )
    with pytest.raises(DataError, match="not what this run was made with"):
        run(before, chairs.parent / "runs", quiet=True)


def test_files_are_read_once(chairs, monkeypatch):
    first = plan(chairs)
    monkeypatch.setattr(cache_module, "_file_sum", None)
    assert plan(chairs) == first


def test_a_run_of_version_0_1_resumes_under_its_name(chairs, tmp_path):
    spec = plan(chairs)
    old = former(spec)
    assert not old.data.params["digest"].startswith(CONTENT_PREFIX) and old.hash != spec.hash
    assert resumable(spec, tmp_path / "runs") == spec
    path = run(old, tmp_path / "runs", quiet=True)
    assert resumable(spec, tmp_path / "runs") == old
    assert run(spec, tmp_path / "runs", quiet=True) == path == tmp_path / "runs" / old.directory
    paint(chairs, 200)  # checked as before: by names and sizes
    assert len(untwine.open_run(path).data) == 6
    (chairs / "aa0" / "renders" / "extra.png").write_bytes(b"more")
    opening._LOADED.clear()
    with pytest.raises(DataError, match="not what this run was made with"):
        _ = untwine.open_run(path).data


def test_a_check_of_data_reads_the_decoded_copy(chairs, cache):
    plan(chairs)
    (folder,) = (path for path in cache.iterdir() if path.name.startswith("chairs3d-"))
    with (folder / "images.npy").open("r+b") as stream:
        stream.seek(200)
        stream.write(b"\1")
    opening._LOADED.clear()
    rows = check_dataset("chairs3d", [f"path={chairs}", "split=all", "size=16"])
    assert any(kind == "decoded" and "checksum differs" in text for kind, text in rows)
