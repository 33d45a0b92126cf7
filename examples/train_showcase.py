"""Train the models of `untwine explore --showcase`: about two minutes of one quiet core.

python examples/train_showcase.py [FOLDER] [--quick]

Writes the finished runs into FOLDER, `showcase` by default. Those that come with untwine are in
src/untwine/explore/showcase; they are below 1 MB together and hold no data.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import untwine

QUICK = "--quick" in sys.argv
FILES = ("run.json", "done.json", "history.csv", "model.safetensors", "scores.json")
SEED = 0
RUNS = (
    {
        "model": "beta-tcvae",
        "data": "sprites",
        "settings": {"size": 16, "beta": 3, "latent": 8, "width": 96, "lr": 1e-3},
        "steps": 12000,
        "metrics": ["mig", "dci", "reconstruction"],
    },
    {
        "model": "beta-tcvae",
        "data": "shapes3d-render",
        "network": "conv",
        "settings": {
            "size": 32,
            "beta": 6,
            "latent": 8,
            "conv.width": 12,
            "conv.hidden": 64,
            "batch": 32,
            "lr": 1e-3,
        },
        "steps": 4000,
        "metrics": ["mig", "dci", "reconstruction"],
    },
    {
        "model": "gm-vae",
        "data": "digits",
        "settings": {"size": 16, "latent": 8, "width": 64, "units": 32, "lr": 1e-3},
        "steps": 6000,
        "metrics": ["reconstruction"],
    },
    {
        "model": "intel-holes",
        "data": "circle",
        "network": "mlp-toy",
        "settings": {"latent": 2, "lr": 3e-3},
        "steps": 4000,
        "metrics": ["reconstruction"],
    },
)


def plan_run(run: dict) -> untwine.Run:
    """The specification of one run."""
    network, steps = run.get("network", "mlp"), 20 if QUICK else run["steps"]
    settings = {**run["settings"], "steps": steps, "seed": SEED}
    return untwine.plan(run["model"], run["data"], network=network, **settings)


def train(folder: Path, run: dict) -> Path:
    """Train and score one run; return its directory without what only resuming needs."""
    with tempfile.TemporaryDirectory() as scratch:
        path = untwine.run(plan_run(run), scratch, threads=1, quiet=QUICK)
        untwine.evaluate_run(path, run["metrics"], n_examples=200 if QUICK else 5000)
        (folder / path.name).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(path / name, folder / path.name / name)
    return folder / path.name


if __name__ == "__main__":
    named = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    for run in RUNS:
        print(train(named[0] if named else Path("showcase"), run), flush=True)
