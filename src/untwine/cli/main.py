"""The command `untwine`. Heavy modules are imported inside the commands that need them."""

import io
import itertools
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from untwine.cli import (
    catalogue,
    data,
    explore,
    files,
    model,
    reproduce,
    score,
    study,
    train,
    tune,
)
from untwine.errors import ParameterError, UntwineError
from untwine.tools.terminal import say


class Commands(TyperGroup):
    """The commands; `--plugin FILE` may stand before or after them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, plugins_first(args))


def plugins_first(words: list[str]) -> list[str]:
    """The words of a command with `--plugin FILE` moved to the front.

    >>> plugins_first(["train", "vae", "--plugin", "a.py", "x", "--plugin=b.py"])
    ['--plugin', 'a.py', '--plugin=b.py', 'train', 'vae', 'x']
    """
    first: list[str] = []
    rest: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word == "--plugin":
            first += [word, *itertools.islice(remaining, 1)]
        else:
            (first if word.startswith("--plugin=") else rest).append(word)
    return [*first, *rest]


app = typer.Typer(
    cls=Commands,
    help="Variational autoencoders whose latent space has structure: train, measure, look.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(asked: bool) -> None:
    """Print the version and end, if asked to."""
    if asked:
        from untwine import __version__

        print(f"untwine {__version__}")
        raise typer.Exit


@app.callback()
def load_plugins(
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A .py file with models, metrics or datasets of your own; before or after the "
            "command; repeatable. UNTWINE_PLUGINS=FILE does the same.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    """Name the plug-ins; they are imported when a name is first looked up."""
    if plugin:
        from untwine.plugins import announce

        for path in plugin:
            announce(path)


app.command()(train.train)
app.command()(score.evaluate)
app.command(cls=score.Command)(score.score)
app.command()(score.report)
for use in (model.encode, model.outliers, model.decode, model.sample, model.reconstruct):
    app.command()(use)
app.command()(model.export)
app.command()(model.push)
app.command()(catalogue.cite)
app.command()(train.runs)
app.command()(train.rm)
app.add_typer(study.app, name="study")
app.command()(tune.tune)
app.command()(reproduce.reproduce)
app.command()(explore.explore)
for kind in ("models", "datasets", "metrics", "networks", "likelihoods"):
    app.add_typer(catalogue.group(kind), name=kind)
app.add_typer(data.app, name="data")
app.command()(files.check)
app.command()(files.trust)


SPIN_COUNT = "10000"
"""Turns that a waiting thread of torch spins; its default of 300,000 is slow on a busy machine."""


MAX_MESSAGE = 8_000  # characters of an error, which may quote names from a file
NO_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
"""How torch says that there is no memory."""


def main() -> None:
    """Run the command; errors are one sentence and a non-zero exit."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # read when torch is loaded
    if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding that lacks a character is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except UntwineError as error:
        say(f"error: {_shorten(str(error))}")
        sys.exit(2 if isinstance(error, ParameterError) else 1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        say("error: this needs more memory than there is; use less data, a smaller batch or model")
        sys.exit(1)
    except OSError as error:  # a file or directory that cannot be read or written
        say(f"error: {_shorten(str(error))}")
        sys.exit(1)


def _shorten(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    return f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 2 :]}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory could not be allocated; torch says so in the text of a `RuntimeError`."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY)


if __name__ == "__main__":
    main()
