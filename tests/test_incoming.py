"""Bytes from outside end in a dataset or a sentence, and are read in one place."""

import ast
import gzip
import os
import re
import runpy
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.data.incoming.arrays import open_arrays
from untwine.errors import DataError, UntwineError
from untwine.runs.directory import list_runs

CORPUS = Path(__file__).with_name("corpus")
MADE = runpy.run_path(str(CORPUS / "make.py"))
DOORS = runpy.run_path(str(CORPUS / "doors.py"))["DOORS"]
SOURCE = Path(untwine.__file__).parent
MAX_BYTES = 2**27  # that a refusal may take
FILES = [(door, name) for door, files in MADE["CASES"].items() for name in files]
READERS = re.compile(
    r"numpy\.(load|loadtxt|genfromtxt|fromfile|memmap)|numpy\.lib\.(format|npyio)\.(read|open)\w+"
    r"|(zipfile|tarfile|gzip|bz2|lzma|pickle|marshal|shelve|dill|cloudpickle|joblib)\.\w+"
    r"|(h5py|netCDF4|tables|zarr)\.\w*[Ff]ile|PIL\.Image\.open|imageio\.\w+|cv2\.imread"
    r"|yaml\.(?!dump|safe_dump)\w+|torch\.(load|jit\.load)|csv\.(reader|DictReader)"
    r"|(pandas|polars)\.(read|scan)_\w+|pyarrow\.\w+\.(ParquetFile|read_\w+|open_\w+)"
    r"|scipy\.io\.(?!savemat)\w+|sqlite3\.connect|onnx(runtime)?\.(load\w*|InferenceSession)"
    r"|(xml|tomllib|configparser)\.\S+|safetensors\.\S*(safe_open|load_file)"
)
"""Functions that decode bytes, by the module that they come from."""
ALLOWED = {  # outside data/incoming: what is read, and how it is guarded
    "data/cache.py": {"numpy.load"},  # arrays of the cache, after their checksum
    "data/tables.py": {"csv.reader", "pandas.read_csv"},  # text that `read_packed` gave
    "estimators/pretrained.py": {
        "torch.load",
        "torch.jit.load",
    },  # weights of a package, after their checksum
    "runs/directory.py": {"csv.DictReader"},  # history.csv, after its checksum
    "study/stored_codes.py": {  # codes.npz, after its checksum
        "zipfile.ZipFile",
        "numpy.lib.format.read_magic",
        "numpy.lib.format.read_array_header_1_0",
    },
    "tools/onnx.py": {"onnxruntime.InferenceSession"},  # a file that was written just before
}


def write_others(place, door):
    """The good files that some doors read beside the one that is tried."""
    for name, content in MADE["VALID"][door].items():
        (place / f"good-{name}").write_bytes(content)


@pytest.mark.parametrize(("door", "name"), FILES)
def test_a_malformed_file_is_refused_in_a_sentence(door, name, tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    path = tmp_path / name
    path.write_bytes(MADE["CASES"][door][name])
    write_others(tmp_path, door)
    tracemalloc.start()
    try:
        with pytest.raises(UntwineError) as refusal:
            DOORS[door](path)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert 20 < len(str(refusal.value)) < 2000


@pytest.mark.parametrize("door", DOORS)
def test_the_good_files_are_read(door, tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    write_others(tmp_path, door)
    for name, content in MADE["VALID"][door].items():
        (tmp_path / name).write_bytes(content)
        assert DOORS[door](tmp_path / name) is not None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(set(DOORS) - {"study"})), st.data())
def test_a_changed_file_is_read_or_refused(tmp_path_factory, door, data):
    files = MADE["VALID"][door] | MADE["CASES"][door]
    name = data.draw(st.sampled_from(sorted(n for n in files if len(files[n]) < 5000)))
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("changed") / name
    path.write_bytes(content)
    write_others(path.parent, door)
    try:
        DOORS[door](path)
    except UntwineError as error:
        assert str(error)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(DataError, match="not a file"):
        untwine.dataset("array", path=str(tmp_path / "x.npy"))


def shapes3d_file(path, kind):
    secret = path.with_name("secret")
    secret.write_bytes(b"TOPSECRET" * 1000)
    shape = (2, 4, 4, 3)
    with h5py.File(path, "w") as file:
        file["labels"] = np.zeros((2, 6))
        if kind == "raw":
            file.create_dataset("images", shape, "u1", external=[(str(secret), 0, 96)])
        if kind == "virtual":
            other = path.with_name("other.h5")
            with h5py.File(other, "w") as held:
                held["x"] = np.zeros(shape, np.uint8)
            layout = h5py.VirtualLayout(shape, "u1")
            layout[...] = h5py.VirtualSource(str(other), "x", shape)
            file.create_virtual_dataset("images", layout)
        if kind == "link":
            file["images"] = h5py.ExternalLink("other.h5", "x")
        if kind == "bomb":
            file.create_dataset("images", (480_000, 64, 64, 3), "u1", chunks=(1, 64, 64, 3))
    return path


@pytest.mark.parametrize("kind", ["raw", "virtual", "link", "bomb"])
def test_an_hdf5_file_leads_to_no_other_and_is_no_bomb(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    path = shapes3d_file(tmp_path / "3dshapes.h5", kind)
    with pytest.raises(DataError, match=r"another file|something else|would grow"):
        untwine.dataset("shapes3d", path=str(path))


def test_arrays_of_all_plain_types_are_read_as_numpy_reads_them(tmp_path):
    for kind in ("u1", "<i2", ">i4", "<f2", ">f8", "?", "<U3"):
        for order in "CF":
            values = np.asarray(np.arange(6).reshape(2, 3) % 2, order=order).astype(kind)
            np.save(tmp_path / "x.npy", values)
            np.savez_compressed(tmp_path / "x.npz", a=values)
            with open_arrays(tmp_path / "x.npy") as arrays:
                assert (arrays.read() == values).all() and (arrays.map() == values).all()
            with open_arrays(tmp_path / "x.npz") as arrays:
                assert (arrays.read("a") == values).all()
                assert arrays.read("a").dtype.isnative


def test_a_packed_file_that_grows_little_is_read(tmp_path):
    from untwine.data.incoming.bounds import read_packed

    content = np.random.default_rng(0).bytes(10_000)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    assert read_packed(tmp_path / "x.gz") == content


def test_runs_that_disappear_are_left_out(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    iterdir = Path.iterdir

    def vanishing(self):
        found = list(iterdir(self))
        (tmp_path / "a" / "run.json").unlink(missing_ok=True)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", vanishing)
    assert list_runs(tmp_path) == [tmp_path / "b"]


def calls(source):
    """The functions that a module calls, by the modules that it imports them from."""
    tree, origins = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                first = name.name.partition(".")[0]
                origins[name.asname or first] = name.name if name.asname else first
        elif isinstance(node, ast.ImportFrom):
            origins |= {n.asname or n.name: f"{node.module}.{n.name}" for n in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield f"{origins.get(first, first)}{dot}{rest}"


def other_readers(source):
    return {name for name in calls(source) if READERS.match(name)}


def test_nothing_else_reads_bytes_from_outside():
    found = {
        path.relative_to(SOURCE).as_posix(): other_readers(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if "data/incoming" not in path.as_posix()
    }
    found = {name: readers for name, readers in found.items() if readers}
    assert found == ALLOWED, "use untwine.data.incoming"


@pytest.mark.parametrize(
    "line",
    """import numpy as np; np.load(x)
from numpy import load; load(x)
import numpy; numpy.fromfile(x)
from numpy.lib import format as npy; npy.read_array(x)
import zipfile as z; z.ZipFile(x)
from zipfile import ZipFile; ZipFile(x)
import tarfile; tarfile.open(x)
from tarfile import TarFile; TarFile.open(x)
import gzip; gzip.open(x)
from gzip import decompress as unzip; unzip(x)
import h5py; h5py.File(x)
from PIL import Image; Image.open(x)
from PIL import Image as images; images.open(x)
import PIL.Image; PIL.Image.open(x)
import yaml; yaml.load(x, yaml.SafeLoader)
from yaml import safe_load; safe_load(x)
import torch; torch.load(x)
import torch; torch.jit.load(x)
import pickle; pickle.loads(x)
from pickle import Unpickler; Unpickler(x).load()
import joblib; joblib.load(x)
import csv; csv.reader(x)
from csv import DictReader; DictReader(x)
import pandas as pd; pd.read_excel(x)
from pandas import read_pickle; read_pickle(x)
import polars as pl; pl.read_csv(x)
import polars; polars.scan_parquet(x)
import pyarrow.parquet as pq; pq.read_table(x)
from scipy.io import loadmat; loadmat(x)
import scipy.io as sio; sio.loadmat(x)
import scipy.io; scipy.io.wavfile.read(x)
import sqlite3; sqlite3.connect(x)
import xml.etree.ElementTree as ET; ET.parse(x)""".splitlines(),
)
def test_another_reader_would_be_noticed(line):
    assert other_readers(line.replace("; ", "\n"))


@pytest.mark.slow
def test_mutated_files_are_read_or_refused(tmp_path):
    found = subprocess.run(
        [sys.executable, str(CORPUS / "fuzz.py"), "10000"],
        env={**os.environ, "UNTWINE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
