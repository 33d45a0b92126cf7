"""Files that hold others or that other programs write: HDF5, MATLAB, zip, tar, Parquet."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from scipy.io import savemat

NAMES = ("1_0_0_0.png", "1_0_0_1.png", "2_0_0_0.png")  # as 3D FACES names its pictures
LABELS = np.array([[0, 0, 0, 0.75, 0, -30], [0.1, 0, 0.9, 1.25, 3, 30]])


def hdf5(**arrays):
    """A file in the format of 3D Shapes; functions make what is no plain array."""
    stream = io.BytesIO()
    good = {"images": np.full((2, 4, 4, 3), 7, np.uint8), "labels": LABELS}
    with h5py.File(stream, "w") as file:
        for key, values in {**good, **arrays}.items():
            if callable(values):
                values(file, key)
            elif values is not None:
                file.create_dataset(key, data=values, chunks=values.shape, compression="gzip")
    return stream.getvalue()


def matlab(compress=True, **arrays):
    """A car of Cars3D."""
    stream = io.BytesIO()
    good = {"im": np.broadcast_to(np.uint8(9), (128, 128, 3, 24, 4))}
    savemat(stream, arrays or good, do_compression=compress)
    return stream.getvalue()


def nested_cells(depth, size=48):
    """A MATLAB variable of cells in cells; SciPy's compiled reader follows them to its end."""
    head = struct.pack("<IIII", 6, 8, 1, 0) + struct.pack("<IIii", 5, 8, 1, 1)
    cell = struct.pack("<II", 14, size) + head + struct.pack("<II", 1, 0)
    return CAR[:128] + matlab_element(1, (1, 1), cell * depth)


def matlab_element(kind, shape, content=b""):
    """The variable `im` of a class and shape, whose size is that of its content."""
    head = struct.pack("<IIII", 6, 8, kind, 0) + struct.pack("<IIii", 5, 8, *shape)
    body = head + struct.pack("<HH4s", 1, 2, b"im") + content
    return struct.pack("<II", 14, len(body)) + body


def packed_element(content):
    packed = zlib.compress(content)
    return struct.pack("<II", 15, len(packed)) + packed


def picture(side=16):
    stream = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(stream, "PNG")
    return stream.getvalue()


def zipped(method=zipfile.ZIP_DEFLATED, **files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in (files or dict.fromkeys(NAMES, picture())).items():
            archive.writestr(name, content, compresslevel=1)
    return stream.getvalue()


def tarred(mode="w", **files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in (files or dict.fromkeys(NAMES, picture())).items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):  # what it links to
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def parquet(columns, **how):
    stream = io.BytesIO()
    pd.DataFrame(columns).to_parquet(stream, **how)
    return stream.getvalue()


def repeated_word(length=100_000, rows=20_000):
    """A column of one long word, which the file holds once."""
    stream = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows), pa.array(["x" * length]))
    pq.write_table(pa.table({"a": column}), stream, store_schema=False)
    return stream.getvalue()


def dsprites(n=3, **arrays):
    stream = io.BytesIO()
    classes = np.zeros((n, 6), int)
    good = {"imgs": np.ones((n, 64, 64), np.uint8), "latents_classes": classes}
    np.savez_compressed(stream, **{**good, "latents_values": classes.astype(float), **arrays})
    return stream.getvalue()


def stored(examples=None, facts=None, **tables):
    """Data given in Python, as a run stores it; an entry of `facts` may be other than it was."""
    factors = {
        "names": ["kind"],
        "sizes": [2],
        "unordered": [],
        "level_names": {"kind": ["a", "b"]},
    }
    good = {"likelihood": {"name": "bernoulli"}, "in_unit_interval": True, "factors": factors}
    good |= {"example_names": [], "preparation": {}}
    arrays = {"examples": np.zeros((3, 4, 4, 1), np.uint8) if examples is None else examples}
    arrays |= {"factors": np.array([[0], [1], [0]]), **tables}
    stream = io.BytesIO()
    text = facts if isinstance(facts, str) else json.dumps({**good, **(facts or {})})
    np.savez(stream, facts=np.array(text), **arrays)
    return stream.getvalue()


def matrix(values, magic):
    sizes = [*values.shape, 1, 1][: max(3, values.ndim)]
    header = struct.pack(f"<{2 + len(sizes)}i", magic, values.ndim, *sizes)
    return gzip.compress(header + values.tobytes(), mtime=0)


COLUMNS = {"a": [1.0, 2.0, 3.5], "b": [3, 4, 5], "kind": ["x", "y", "x"]}
CAR = matlab()
FIELD = struct.pack("<HHiII8s", 5, 4, 8, 1, 8, b"a")  # the names of the fields of a structure
ZEROS = bytes(68_000_000)  # more than a small file may unpack to

VALID = {
    "hdf5": {"3dshapes.h5": hdf5()},
    "matlab": {"car.mat": CAR, "flat.mat": matlab(compress=False)},
    "tar of MATLAB": {"cars.tar.gz": gzip.compress(tarred(**{"cars/a.mat": CAR}), mtime=0)},
    "zip": {"x.zip": zipped(), "stored.zip": zipped(zipfile.ZIP_STORED)},
    "tar": {"x.tar": tarred()},
    "dsprites": {"dsprites.npz": dsprites()},
    "smallnorb": {
        "dat": matrix(np.zeros((2, 2, 96, 96), np.uint8), 507333717),
        "cat": matrix(np.zeros(2, np.int32), 507333716),
        "info": matrix(np.zeros((2, 4), np.int32), 507333716),
    },
    "data table": {
        "x.csv": b"a,b,kind\n1,2,x\n3,4,y\n5,6,x\n",
        "rows.tsv": b"\ta\tb\nr1\t1\t2\nr2\t3\t4\n",
        "x.parquet": parquet(COLUMNS),
        "index.parquet": parquet(COLUMNS | {"kind": [1, 2, 3]}, compression="gzip"),
    },
    "stored data": {
        "x.npz": stored(),
        "vectors.npz": stored(np.ones((3, 2), np.float32), groups=np.array([0, 1, 1])),
    },
}
CASES = {
    "hdf5": {
        "empty.h5": b"",
        "magic.h5": b"\x89HDF\r\n\x1a\n",
        "cut.h5": hdf5()[:1500],
        "no-labels.h5": hdf5(labels=None),
        "group.h5": hdf5(images=lambda file, key: file.create_group(key)),
        "text.h5": hdf5(labels=lambda file, key: file.create_dataset(key, data=["a", "b"])),
        "holes.h5": hdf5(
            images=lambda f, k: f.create_dataset(k, (480_000, 64, 64, 3), "u1", chunks=True)
        ),
        "chunk.h5": hdf5(
            images=lambda f, k: f.create_dataset(
                k, (2, 9999, 9999, 3), "u1", chunks=(2, 9999, 9999, 3)
            )
        ),
        "raw.h5": hdf5(
            images=lambda f, k: f.create_dataset(
                k, (2, 4, 4, 3), "u1", external=[("/etc/passwd", 0, 96)]
            )
        ),
        "link.h5": hdf5(
            images=lambda f, k: f.__setitem__(k, h5py.ExternalLink("/etc/passwd", "x"))
        ),
        "soft.h5": hdf5(images=lambda f, k: f.__setitem__(k, h5py.SoftLink("/labels"))),
        "nan.h5": hdf5(labels=np.full((2, 6), np.nan)),
    },
    "matlab": {
        "empty.mat": b"",
        "head.mat": CAR[:128],
        "no-checksum.mat": CAR[:132] + struct.pack("<I", len(CAR) - 140) + CAR[136:-4],
        "cut.mat": CAR[:-40],
        "wide.mat": matlab(im=np.zeros((128, 128, 3, 24, 5), np.uint8)),
        "text.mat": matlab(im="text"),
        "struct.mat": matlab(im={"a": {"b": 1}}),
        "cells.mat": matlab(im=np.array([[1], ["a"]], dtype=object)),
        "nested.mat": nested_cells(60_000),
        "packed.mat": CAR[:128] + packed_element(nested_cells(100_000)[128:]),
        "many-cells.mat": CAR[:128] + matlab_element(1, (30_000, 30_000)),
        "many-fields.mat": CAR[:128] + matlab_element(2, (10**8, 1), FIELD),
        "long-text.mat": CAR[:128] + matlab_element(4, (10**9, 1), struct.pack("<II", 4, 0)),
        "large.mat": CAR[:128] + matlab_element(9, (10**9, 1), struct.pack("<II", 2, 0)),
        "sparse.mat": CAR[:128] + matlab_element(5, (10**9, 10**9)),
        "old.mat": struct.pack("<5i", 0, 9, 9, 0, 3) + b"im\0" + bytes(1000),
        "bomb.mat": CAR[:128] + packed_element(ZEROS),
    },
    "tar of MATLAB": {
        "empty.tar.gz": b"",
        "none.tar.gz": gzip.compress(tarred(), mtime=0),
        "text.tar.gz": gzip.compress(tarred(**{"cars/a.mat": b"text"}), mtime=0),
        "cut.tar.gz": VALID["tar of MATLAB"]["cars.tar.gz"][:-20],
        "link.tar.gz": gzip.compress(tarred(**{"cars/a.mat": "/etc/passwd"}), mtime=0),
        "bomb.tar.gz": gzip.compress(tarred(**{"cars/a.mat": ZEROS}), 1, mtime=0),
    },
    "zip": {
        "empty.zip": b"",
        "none.zip": b"PK\x05\x06" + bytes(18),
        "cut.zip": zipped()[:-9],
        "bomb.zip": zipped(**{NAMES[0]: ZEROS}),
        "text.zip": zipped(**dict.fromkeys(NAMES, b"text")),
        "up.zip": zipped(**{f"../../{name}": b"text" for name in NAMES}),
        "method.zip": zipped(zipfile.ZIP_LZMA),
    },
    "tar": {
        "empty.tar": b"",
        "cut.tar": tarred()[:700],
        "link.tar": tarred(**dict.fromkeys(NAMES, "/etc/passwd")),
        "packed.tar": tarred("w:gz"),
        "size.tar": tarred()[:124] + b"77777777777" + tarred()[135:],
    },
    "dsprites": {
        "images.npz": dsprites(imgs=np.ones((3, 64, 65), np.uint8)),
        "values.npz": dsprites(imgs=np.full((3, 64, 64), 7, np.uint8)),
        "classes.npz": dsprites(latents_classes=np.full((3, 6), 99)),
        "fewer.npz": dsprites(latents_classes=np.zeros((2, 6), int)),
        "objects.npz": dsprites(imgs=np.array([{"a": 1}], dtype=object)),
    },
    "smallnorb": {
        "dat": matrix(np.zeros((2, 2, 96, 95), np.uint8), 507333717),
        "cat": matrix(np.full(2, 99, np.int32), 507333716),
        "info": gzip.compress(struct.pack("<5i", 507333716, 2, -1, 4, 1), mtime=0),
    },
    "data table": {
        "empty.csv": b"",
        "wide.csv": b"," * 20_000,
        "nul.csv": b"a,b\n\0,1\n2,\0\n",
        "quote.csv": b'a,b\n"1,2\n3,4\n',
        "empty-cells.csv": b"a,b\n" + b",\n" * 2_200_000,
        "empty-rows.csv": gzip.compress(b"a,b\n" + b",\n" * 9_000_000, 1, mtime=0),
        "same.csv": b"a,a\n1,2\n3,4\n",
        "words.csv": b"a,b\nx,y\nz,w\n",
        "huge.csv": b"a,b\n1e400,1\n1,2\n",
        "digits.csv": b"a,b\n" + b"9" * 5000 + b",1\n1,2\n",
        "empty.parquet": b"",
        "cut.parquet": VALID["data table"]["x.parquet"][:-9],
        "bomb.parquet": parquet({"a": np.zeros(9_000_000)}, compression="zstd"),
        "words.parquet": repeated_word(),
        "nested.parquet": parquet({"a": [[1, 2], [3, 4]]}),
        "dates.parquet": parquet({"a": pd.to_datetime(["2001-01-01", "2002-01-01"])}),
    },
    "stored data": {
        "text.npz": stored(facts="{"),
        "list.npz": stored(facts="[]"),
        "deep.npz": stored(facts="[" * 9999),
        "empty.npz": stored(np.zeros((0,), np.uint8)),
        "shape.npz": stored(np.zeros((3, 4), np.uint8)),
        "longer.npz": stored(np.zeros((4, 4, 4, 1), np.uint8)),
        "sizes.npz": stored(
            facts={
                "factors": {"names": ["k"], "sizes": [10**18], "unordered": [], "level_names": {}}
            }
        ),
        "names.npz": stored(
            facts={"factors": {"names": [], "sizes": [2], "unordered": ["x"], "level_names": {}}}
        ),
        "levels.npz": stored(factors=np.array([[0], [99], [-1]])),
        "words.npz": stored(factors=np.array([["a"], ["b"], ["c"]])),
        "table.npz": stored(factors=np.zeros((3, 2, 2), int)),
        "groups.npz": stored(groups=np.array(["a", "b", "c"])),
        "nan.npz": stored(np.full((3, 2), np.nan, np.float32)),
        "likelihood.npz": stored(facts={"likelihood": {"name": 3}}),
    },
}
