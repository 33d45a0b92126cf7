"""Training speed compared with other libraries, each with its own trainer and environment.

python benchmarks/peers.py [--rounds 5] [--quick]

The first call makes a virtual environment for each peer under .cache/peers and installs the peer
there with the torch version that untwine has; later calls use it again. Contenders train the same
network on the same images with the same numbers (`peers/network.py`), one script each
(`peers/NAME_trainer.py`), and take turns after a step of their optimiser (`peers/contender.py`).
Every round starts them anew: how much memory goes back to the system after a step, and is faulted
in again in the next, stays the same within a process but differs much from one to another.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from harness import Result, section, show, table, take_turns

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "peers"
CONTENDER = str(HERE / "peers" / "contender.py")
IMAGES = 4096
TORCH = version("torch").partition("+")[0]
MODELS = ("vae", "beta-tcvae", "factor-vae")


@dataclass(frozen=True)
class Peer:
    """A library, its requirements, and the models it can train."""

    name: str
    requirements: tuple[str, ...]
    models: tuple[str, ...] = ("vae",)

    @property
    def home(self):
        return CACHE / self.name

    @property
    def python(self):
        return str(self.home / "bin" / "python")

    @property
    def packages(self):
        return [f"torch=={TORCH}", *self.requirements]

    def install(self):
        """Create the environment if it is missing; returns the reason if that fails."""
        done = self.home / "installed.txt"
        if done.exists() and done.read_text().split() == self.packages:
            return None
        show(f"installing {self.name}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", self.home], check=True)
        pip = [self.python, "-m", "pip", "install", "--quiet", "--no-input", *self.packages]
        attempt = subprocess.run(pip, capture_output=True, text=True, check=False)
        if attempt.returncode:
            shutil.rmtree(self.home)
            return (attempt.stderr.strip().splitlines() or ["pip failed"])[-1]
        done.write_text("\n".join(self.packages))
        return None

    def torch(self):
        """The version of torch in the environment."""
        ask = "from importlib.metadata import version; print(version('torch'))"
        answer = subprocess.run(
            [self.python, "-c", ask], capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()


PEERS = (
    Peer("pythae", ("pythae==0.1.2",), MODELS),
    Peer("disent", ("disent==0.8.0", "lightning==2.6.6"), ("vae", "beta-tcvae")),
    Peer("pixyz", ("pixyz==0.3.3",)),
    Peer("pyro", ("pyro-ppl==1.9.2",)),
)
RETAINING = ("pythae", "disent")
"""Peers that train the VAE a second time with freed memory retained, as untwine does."""

WORK = f"""Sprites of 64x64x1, batch 64, the network conv-k4 with 10 latents, Adam at 1e-4,
Bernoulli likelihood, fp32, two threads. Each peer has the same layers in plain torch and trains by
its own trainer as its documentation shows, with fused Adam, without progress bars and checkpoints,
on {IMAGES:,} images in memory; untwine trains by `fit` and renders its sprites itself. Images are
counted from one step of the optimiser to another, start and set-up left out, in a new process for
each turn. FactorVAE counts the images of the VAE only; both libraries encode as many again for the
permuted codes. With memory retained, the C library keeps freed memory, as untwine always does;
without, the rate of a peer depends on the layout of its heap."""

NOT_COMPARED = """Not compared: disentanglement_lib needs TensorFlow 1.14, which pip does not find
for this Python; lightning-bolts and autoencoders have no Bernoulli likelihood, and the former no
choice of network; torchvae wants a torch before 2; disentangling-vae and PyTorch-VAE are not
packages that pip finds."""


def write_images():
    """Write the images that the peers read, spread evenly over all sprites."""
    import untwine

    path = CACHE / "sprites.npy"
    if path.exists():
        return
    data = untwine.dataset("sprites", size=64)
    rows = np.linspace(0, len(data) - 1, IMAGES).astype(int).tolist()
    CACHE.mkdir(parents=True, exist_ok=True)
    np.save(path, data.take(rows).squeeze(1).numpy().astype(np.uint8))


def contenders(model, peers):
    """{words for contender.py: interpreter}, ours first."""
    again = [p for p in peers if model == "vae" and p.name in RETAINING]
    return {
        f"untwine {model}": sys.executable,
        **{f"{p.name} {model}": p.python for p in peers if model in p.models},
        **{f"{p.name} {model} kept": p.python for p in again},
    }


def measure(names, rounds):
    """{words: Result}; every turn is a new process, so that contenders do not interfere."""
    rates = {words: [] for words in names}
    for _ in range(rounds):
        for words in names:
            turn = take_turns(CONTENDER, [words], 1, python=names)
            rates[words].append(turn[words].median)
    return {words: Result.of(values) for words, values in rates.items()}


def rows(model, peers, rounds):
    """One row for each contender; they take turns."""
    about = {p.name: (p.requirements[0].replace("==", " "), p.torch()) for p in peers}
    about["untwine"] = f"untwine {version('untwine')}", version("torch")
    results = measure(contenders(model, peers), rounds)
    ours = results[f"untwine {model}"]
    for words, result in results.items():
        name, _, *options = words.split()
        title, torch = about[name]
        yield [
            title + (", memory retained" if options else ""),
            model,
            torch,
            result.format(),
            f"{ours.over(result):.2f}",
        ]


def main():
    parser = argparse.ArgumentParser(description="Training speed against other libraries.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    options = parser.parse_args()
    os.environ["TQDM_DISABLE"] = "1"  # no progress bars of the peers
    write_images()
    failed = {peer: reason for peer in PEERS if (reason := peer.install())}
    peers = [peer for peer in PEERS if peer not in failed]
    rounds = 2 if options.quick else options.rounds
    lines = [row for model in MODELS for row in rows(model, peers, rounds)]
    section(
        "Training against other libraries",
        WORK,
        NOT_COMPARED,
        *(f"{p.name} could not be installed: {reason}" for p, reason in failed.items()),
    )
    table(["trainer", "model", "torch", "images/s", "untwine over it"], lines)


if __name__ == "__main__":
    main()
