"""Folders of pictures in the layouts of datasets, with one odd thing in them."""

import io
import os
import random
import runpy
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

KINDS = ("RGB", "L", "P", "RGBA", "LA", "I;16", "I", "F", "1", "CMYK", "LAB", "YCbCr")
SUFFIX_OF = {"CMYK": "TIFF", "LAB": "TIFF", "F": "TIFF", "YCbCr": "TIFF", "I": "TIFF"}
SPARSE = 1 << 36  # bytes


def picture(side=(24, 24), mode="RGB") -> bytes:
    stream = io.BytesIO()
    Image.new(mode, side).save(stream, SUFFIX_OF.get(mode, "PNG"))
    return stream.getvalue()


def annotations() -> bytes:
    """The list of models of Cars."""
    kinds = [("bbox_x1", object), ("class", object), ("fname", object)]
    rows = np.array([(1, 1, "1.jpg"), (1, 2, "2.jpg")], dtype=kinds)
    stream = io.BytesIO()
    savemat(stream, {"annotations": rows[None]})
    return stream.getvalue()


def celeba() -> dict[str, bytes]:
    names = [f"{k:06}.jpg" for k in (1, 2, 3)]
    rows = [f"{name} {' '.join(['1'] * 40)}" for name in names]
    head = ["3", " ".join(f"a{k}" for k in range(40))]
    parts = "".join(f"{name} 0\n" for name in names)
    return {
        **{f"img_align_celeba/{name}": picture((178, 218)) for name in names},
        "list_attr_celeba.txt": "\n".join([*head, *rows]).encode(),
        "list_eval_partition.txt": parts.encode(),
    }


VIEWS = ("image_001_p020_t011_r096.png", "image_002_p020_t023_r096.png")
LAYOUTS = {  # files by their path, and the settings with which they are read
    "folder": ({f"{name}/{k}.png": picture() for name in "ab" for k in "12"}, {"size": 16}),
    "chairs3d": (
        {f"m{k}/renders/{view}": picture((40, 40)) for k in range(3) for view in VIEWS}
        | {"models.txt": b"m0\nm1\n"},
        {"split": "all", "size": 16},
    ),
    "cars": (
        {f"cars_train/{k}.jpg": picture() for k in (1, 2)}
        | {"cars_train_annos.mat": annotations()},
        {"split": "all", "size": 16},
    ),
    "faces3d": ({f"1_0_0_{k}.png": picture() for k in range(3)}, {"split": "all", "size": 16}),
    "celeba": (celeba(), {"split": "all", "size": 16}),
    "smallnorb": ({}, {"size": 16}),
    "cars3d": ({"cars/a.mat": b"", "cars/b.mat": b""}, {"size": 16}),
}


def write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def make_odd(folder: Path, files: list[str], rng: random.Random) -> str:
    """Replace a file by what is none, or by a picture of another kind, or add one beside it."""
    name = rng.choice(files)
    path = folder / name
    if rng.random() < 0.3:
        path = path.with_name(rng.choice(("x.png", "x.jpg", "x.mat", "models.txt", "a\udcff.png")))
    kind = rng.choice(("pipe", "device", "folder", "loop", "sparse", "empty", "cut", *KINDS))
    if path.is_file():
        content = path.read_bytes()
        path.unlink()
    else:
        content = picture()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir(exist_ok=True)
    elif kind == "loop":
        path.symlink_to(".")
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(SPARSE)
    elif kind in KINDS:
        path.write_bytes(picture(mode=kind))
    else:
        path.write_bytes(content[: len(content) // 2] if kind == "cut" else b"")
    return f"{path.name!a} of kind {kind}"


def data_folder_door(place: Path, private: Path):
    """A folder of a dataset in which one file is odd or mutated."""
    from trials import HERE, Trial, mutate

    import untwine

    norb = runpy.run_path(str(HERE / "containers.py"))["VALID"]["smallnorb"]
    chunks = runpy.run_path(str(HERE / "doors.py"))["NORB_CHUNKS"]
    LAYOUTS["smallnorb"][0].update(
        {f"smallnorb-{chunk}-{part}.mat.gz": norb[part] for chunk in chunks for part in norb}
    )

    def trial(rng: random.Random) -> Trial:
        name = rng.choice(list(LAYOUTS))
        files, settings = LAYOUTS[name]
        folder = place / "data"
        write(folder, files)
        if rng.random() < 0.5:
            what = make_odd(folder, list(files), rng)
        else:
            what = rng.choice(list(files))
            is_text = what.endswith(".txt")
            content = mutate(files[what], rng.choice(list(files.values())), rng, is_text)
            (folder / what).write_bytes(content)

        def work() -> object:
            data = untwine.dataset(name, path=str(folder), **settings)
            return data.take(range(len(data))).shape

        return Trial(f"{name}: {what}", work)

    return trial


DOORS = {"data folders": data_folder_door}
