"""Small malformed files, made the same way every time: name to content.

Each was, or could be, a traceback, a hang or a bomb. `CASES` maps a door to its files;
`VALID` holds a good file for every door, which the fuzzer mutates too.
"""

import gzip
import io
import runpy
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def npy(values=None, header=None, payload=None, version=b"\x01\x00"):
    if header is None:
        stream = io.BytesIO()
        np.save(
            stream, np.arange(12, dtype=np.uint8).reshape(3, 2, 2) if values is None else values
        )
        return stream.getvalue()
    text = header.encode() + b"\n"
    width = "<H" if version == b"\x01\x00" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(text)) + text + (payload or b"")


def header(shape, descr="'|u1'", fortran=False):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"


def npz(method=zipfile.ZIP_DEFLATED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def patched(content, old, new):
    assert old in content
    return content.replace(old, new)


def picture(kind="PNG", size=(8, 8), mode="RGB"):
    stream = io.BytesIO()
    Image.new(mode, size, 1).save(stream, kind)
    return stream.getvalue()


def many_scans(scans=200):
    """A progressive JPEG whose last scan is there many times."""
    content = io.BytesIO()
    Image.new("L", (256, 256), 128).save(content, "JPEG", progressive=True)
    head, mark, last = content.getvalue().removesuffix(b"\xff\xd9").rpartition(b"\xff\xda")
    return head + (mark + last) * scans + b"\xff\xd9"


def png_of(width, height):
    """A PNG that announces many pixels and holds none."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )  # fmt: skip

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


CONTAINERS = runpy.run_path(str(Path(__file__).with_name("containers.py")))
GOOD_NPZ = npz(images=npy(), factors=npy(np.arange(3)[:, None]))
LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
)
STUDY = "study: s\nmodels: {beta-vae: {beta: [1, 2]}}\ndata: sprites(size=16)\nseeds: 2\n"
TABLE = "model,setting,data,seed,mig\nvae,vae,sprites,0,0.5\nvae,vae,sprites,1,0.25\n"
PUBLISHED = "model_name,dataset,model_random_seed,vae_beta\nbeta_vae,dsprites_full,0,1.0\n"
IDX = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2, 4, 4) + bytes(range(32))

VALID = {
    "array": {"x.npy": npy(), "x.npz": GOOD_NPZ},
    "score": {"x.npy": npy(np.arange(12.0).reshape(6, 2)), "x.csv": b"a,b\n1,2\n3,4\n"},
    "picture": {f"x.{kind}": picture(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF")},
    "idx": {"x": IDX, "x.gz": gzip.compress(IDX, mtime=0)},
    "study": {"x.yaml": STUDY.encode()},
    "table": {"ours.csv": TABLE.encode(), "x.csv.gz": gzip.compress(PUBLISHED.encode(), mtime=0)},
    **CONTAINERS["VALID"],
}
CASES = {
    "array": {
        "empty.npy": b"",
        "magic.npy": b"\x93NUMPY",
        "huge.npy": npy(header=header("(1000000000000,)")),
        "overflow.npy": npy(header=header(f"({2**62}, {2**62})")),
        "nothing.npy": npy(header=header(f"({10**18}, 0)")),
        "boolean.npy": npy(header=header("(True,)"), payload=b"1"),
        "negative.npy": npy(header=header("(-1,)")),
        "deep.npy": npy(header=header("(1, 1, 1, 1, 1, 1)"), payload=b"1"),
        "object.npy": npy(header=header("(1,)", "'|O'"), payload=bytes(8)),
        "fields.npy": npy(header=header("(1,)", "[('a', '<i4')]"), payload=bytes(4)),
        "no-width.npy": npy(header=header(f"({10**18},)", "'<U0'")),
        "nested.npy": npy(header="(" * 5000, version=b"\x02\x00"),
        "token.npy": npy(header="{'descr': '\n"),
        "long.npy": npy(header=" " * 60_000, version=b"\x02\x00"),
        "cut.npy": npy()[:-1],
        "more.npy": npy() + b"x",
        "bomb.npz": npz(images=npy(np.zeros((70, 1000, 1000), np.uint8))),
        "encrypted.npz": patched(
            GOOD_NPZ, b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
        ),
        "method.npz": npz(zipfile.ZIP_BZIP2, images=npy()),
        "cut.npz": GOOD_NPZ[:-30],
        "other.npz": npz(nothing=npy()),
        "pickle.npz": npz(images=b"\x80\x04K\x01."),
        "levels.npz": npz(images=npy(), factors=npy(np.full((3, 1), 2**62))),
    },
    "score": {
        "complex.npy": npy(np.ones((4, 2), complex)),
        "text.npy": npy(np.array([["a"]])),
        "cube.npy": npy(np.zeros((2, 2, 2))),
        "huge.npy": npy(header=header("(1000000000000, 2)", "'<f8'")),
        "empty.csv": b"",
        "header.csv": b"a,b\n",
        "ragged.csv": b"1,2\n3\n",
        "bytes.csv": b"\xff\xfe\x00",
        "wide.csv": b"," * 20_000,
        "lines.csv": gzip.compress(b"1,2\n" + b"\n" * 20_000_000, 1, mtime=0),
        "cells.csv": gzip.compress(b"1,2\n" * 2_000_000, 1, mtime=0),
    },
    "picture": {
        "empty.png": b"",
        "scans.jpg": many_scans(),
        "plain.ppm": b"P3 1000 1000 255\n" + b"0 " * 3_000_000,
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
        "wide.png": png_of(13_000, 13_000),
        "wider.png": png_of(2**31 - 1, 2**31 - 1),
        "cut.png": picture()[:40],
        "text.png": b"hello",
        "float.png": picture("TIFF", mode="F"),
    },
    "idx": {
        "empty": b"",
        "long": IDX + b"x",
        "huge": bytes((0, 0, 8, 3)) + b"\xff" * 12,
        "cut.gz": gzip.compress(IDX, mtime=0)[:-9],
        "bomb.gz": gzip.compress(bytes(70_000_000), mtime=0),
    },
    "study": {
        "tag.yaml": b"seeds: !!int x\n",
        "python.yaml": b"about: !!python/object/apply:os.system [true]\n",
        "laughs.yaml": LAUGHS.encode(),
        "itself.yaml": b"a: &a [*a]\n",
        "seeds.yaml": b"models: vae\ndata: sprites(size=16)\nseeds: 1000000000000000000\n",
        "many-seeds.yaml": b"models: vae\ndata: sprites(size=16)\nseeds: 100000000000000000000\n",
        "runs.yaml": (
            "models: {beta-vae: {beta: [" + ",".join(map(str, range(1, 2000))) + "]}}\n"
            "data: sprites(size=16)\nseeds: 1000\n"
        ).encode(),
        "digits.yaml": b"seeds: " + b"9" * 5000,
        "deep.yaml": b"a: " + b"[" * 5000,
        "date.yaml": b"about: 2001-99-99\n",
        "merge.yaml": b"<<: [1, 2]\n",
        "key.yaml": b"? [a, b]\n: 1\n",
        "bytes.yaml": b"\xff\xfe\x00\x01",
        "list.yaml": b"- 1\n",
    },
    "table": {
        "empty.csv": b"",
        "header.csv": b"model,setting,data,seed\n",
        "no-number.csv": b"model_name,dataset,model_random_seed\nbeta_vae,d,0\n",
        "text.csv": b"model_name,dataset,model_random_seed,vae_beta\nbeta_vae,d,0,x\n",
        "name.csv": b"model_name,dataset,model_random_seed,vae_beta\n,d,0,1\n",
        "wide.csv": b"," * 20_000,
        "longer-rows.csv": b"model,setting\n" + b"," * 3000 + b"\n",
        "empty-rows.csv.gz": gzip.compress(TABLE.encode() + b",,,,\n" * 4_000_000, 1, mtime=0),
        "cut.csv.gz": gzip.compress(TABLE.encode(), mtime=0)[:-9],
    },
    **CONTAINERS["CASES"],
}
