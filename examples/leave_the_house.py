"""A model that leaves the house: from a folder of photos to a service that never saw them.

    python examples/leave_the_house.py                 draw pictures, work in a temporary directory
    python examples/leave_the_house.py ./photos        with your own photos

Photos become a run. The run moves to a directory where the photos are not, and encodes new photos
there. Noise among the new photos is found by its likelihood. The model becomes a folder, which is
loaded by a process that can import PyTorch, NumPy, safetensors and untwine, and nothing else.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

N_NEW, N_NOISE = 20, 5
TRAIN = "--set folder.size=16 --set folder.fit=crop --set folder.filter=lanczos --name photos"
NUMBERS = "--network mlp --latent 4 --steps 600 --batch 32 --lr 3e-3 --threads 1 --quiet"
SERVICE = """
import importlib.metadata, sys
import numpy as np, safetensors.torch, torch

allowed = {"untwine", "lazy_loader", *(name.partition(".")[0] for name in sys.modules)}
allowed |= {"filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy"}  # torch's
for name in importlib.metadata.packages_distributions():
    if name not in allowed:
        sys.modules[name] = None  # as if it were not installed

import untwine

model = untwine.load(sys.argv[1])
codes = model.encode(np.load(sys.argv[2]))
print(codes.shape, tuple(model.sample(3).shape), model.card.preparation)
assert {sys.modules.get(name, 0) for name in ("pandas", "scipy", "sklearn", "PIL")} == {None}
"""


def draw_photos(folder: Path, seeds: range) -> None:
    """Discs before skies, of all colours and in two formats."""
    folder.mkdir(parents=True)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        height, width = (24, 32) if seed % 2 else (36, 24)
        rows, columns = np.mgrid[:height, :width]
        picture = (rows / height)[..., None] * rng.uniform(80, 160, 3)
        centre = height / 2 + rng.uniform(-4, 4), width / 2 + rng.uniform(-4, 4)
        disc = np.hypot(rows - centre[0], columns - centre[1]) < rng.uniform(4, 8)
        picture[disc] = rng.uniform(120, 255, 3)
        Image.fromarray(picture.astype(np.uint8)).save(folder / f"photo-{seed:03}.png")


def draw_noise(folder: Path) -> None:
    """Pictures that are no photos."""
    rng = np.random.default_rng(0)
    for number in range(N_NOISE):
        noise = rng.integers(0, 256, (30, 30, 3)).astype(np.uint8)
        Image.fromarray(noise).save(folder / f"noise-{number}.png")


def untwine(words: str, *more: object) -> str:
    """The output of a command."""
    command = [sys.executable, "-m", "untwine", *words.split(), *map(str, more)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def travel(place: Path, photos: Path, new: Path) -> list[str]:
    """Go the whole way; return the names of the new photos, the least likely first."""
    run = Path(untwine(f"train vae {TRAIN} {NUMBERS}", photos, "--out", place / "runs").strip())
    moved = place / "elsewhere" / run.name
    shutil.move(run, moved)
    photos.rename(photos.with_name("put away"))

    untwine("encode", moved, new, "--out", place / "codes.csv", "--quiet")
    with (place / "codes.csv").open() as file:
        rows = list(csv.DictReader(file))
    print(f"{len(rows)} codes; the first is of {rows[0]['example']}")

    untwine("outliers", moved, new, "--out", place / "outliers.csv", "--quiet")
    with (place / "outliers.csv").open() as file:
        names = [row["example"] for row in csv.DictReader(file)]
    print("least likely:", *names[:N_NOISE])

    untwine("export", moved, place / "model")
    np.save(place / "images.npy", np.random.default_rng(0).random((2, 3, 16, 16), np.float32))
    service = [sys.executable, "-c", SERVICE, place / "model", place / "images.npy"]
    print(subprocess.run(service, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    photos.with_name("put away").rename(photos)
    return names


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        folders = [word for word in sys.argv[1:] if word != "--quick"]  # it is quick anyway
        if folders:
            shutil.copytree(folders[0], here / "photos")
            (here / "new").mkdir()
            for photo in sorted(path for path in (here / "photos").rglob("*.*"))[:N_NEW]:
                shutil.move(photo, here / "new")
        else:
            draw_photos(here / "photos", range(200))
            draw_photos(here / "new", range(200, 200 + N_NEW))
        draw_noise(here / "new")
        least_likely = travel(here, here / "photos", here / "new")
    assert all(name.startswith("noise") for name in least_likely[:N_NOISE]), least_likely
