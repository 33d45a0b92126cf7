"""Options that several commands share, and old spellings that still work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from untwine.tools.terminal import warn

Runs = Annotated[
    Path, typer.Option("--out", envvar="UNTWINE_RUNS", help="Directory that holds the runs.")
]
Studies = Annotated[
    Path, typer.Option("--out", envvar="UNTWINE_STUDIES", help="Directory that holds the studies.")
]
RunName = Annotated[str, typer.Argument(help="A run directory, or a part of its name.")]
ModelName = Annotated[str, typer.Argument(help="A model, or several: jigsaw+beta-tcvae.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps or auto (best available).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress output.")]
Track = Annotated[str, typer.Option(help="Send rows and pictures to tensorboard, wandb or mlflow.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set a parameter; repeatable."),
]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", help="Names separated by commas, or all; the quick ones by default."),
]
DataPlace = Annotated[
    str, typer.Option("--data", metavar="PLACE", help="Where the run's data is, or other data.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Open files and downloads that a received run names.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

RENAMED = {
    "--against": "--other-codes",
    "--no-timing": "--no-estimate",
    "--on": "--backend",
    "--rows": "--examples",
    "--runs": "--storage",
    "--timing": "--estimate",
}
"""Spellings of version 0.1, which work until 0.3."""


class Command(TyperCommand):
    """A command that takes old spellings of its options, with a warning."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for p in self.params for name in (*p.opts, *p.secondary_opts)}
        return super().parse_args(ctx, [self._renamed(word, known) for word in args])

    def _renamed(self, word: str, known: set[str]) -> str:
        option, equals, value = word.partition("=")
        new = RENAMED.get(option)
        if option in known or new not in known:
            return word
        warn(f"{option} is now called {new}; the old name goes in version 0.3")
        return f"{new}{equals}{value}"
