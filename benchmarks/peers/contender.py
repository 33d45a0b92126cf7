"""Train by one library's own trainer, in turns; run by peers.py with that library's interpreter.

contender.py LIBRARY MODEL [kept]

No trainer here knows of turns, so they are made where all of them come by: after a step of the
optimiser. There the process prints how many images a second went by since its turn began, and
waits for the next line on standard input. `kept` tells the C library to keep freed memory, as
untwine does.
"""

import ctypes
import importlib
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from network import BATCH
from torch.optim.optimizer import register_optimizer_step_post_hook

SECONDS, WARM_UP, THREADS = 2.0, 6, 2
IMAGES = Path(__file__).parents[2] / ".cache" / "peers" / "sprites.npy"  # (N, 64, 64) of 0 and 1


class Turns:
    """Called after every step of every optimiser; counts those of the first."""

    def __init__(self, answers):
        self.answers = answers
        self.first = None
        self.steps = 0
        self.began = 0.0

    def __call__(self, optimiser, *_):
        if self.first is None:
            self.first = optimiser
        if optimiser is not self.first:
            return
        self.steps += 1
        spent = time.perf_counter() - self.began
        if not self.began and self.steps == WARM_UP:
            self.answer("ready")
        elif self.began and spent >= SECONDS:
            self.answer(self.steps * BATCH / spent)

    def answer(self, text):
        try:
            print(text, file=self.answers, flush=True)
        except BrokenPipeError:  # nobody is there any more
            raise SystemExit from None
        if not sys.stdin.readline():
            raise SystemExit
        self.steps, self.began = 0, time.perf_counter()


def keep_memory():
    """The settings of glibc that untwine's trainer makes."""
    for setting, size in {-3: 2**30, -1: 2**31 - 1, -2: 2**27}.items():
        ctypes.CDLL(None).mallopt(setting, size)


def main(library, model, *options):
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if "kept" in options:
        keep_memory()
    torch.set_num_threads(THREADS)
    turns = Turns(sys.stdout)
    register_optimizer_step_post_hook(turns)
    sys.stdout = sys.stderr  # what a trainer prints is no answer
    images = np.load(IMAGES)
    trainer = importlib.import_module(f"{library}_trainer")
    if library == "untwine":
        trainer.call_after_steps(turns)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        trainer.train(model, images)
    raise SystemExit(f"{library} came to the end of its training")


if __name__ == "__main__":
    main(*sys.argv[1:])
