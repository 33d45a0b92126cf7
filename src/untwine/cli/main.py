"""The command `untwine`. Heavy modules are imported inside the commands that need them."""

import io
import sys

import typer

from untwine.cli import catalogue, data, explore, reproduce, score, study, train
from untwine.errors import ParameterError, UntwineError
from untwine.tools.terminal import say

app = typer.Typer(
    help="Variational autoencoders whose latent space has structure: train, measure, look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(train.train)
app.command()(score.evaluate)
app.command(cls=score.Command)(score.score)
app.command()(score.report)
app.command()(catalogue.cite)
app.command()(train.runs)
app.add_typer(study.app, name="study")
app.command()(reproduce.reproduce)
app.command()(explore.explore)
for kind in ("models", "datasets", "metrics", "networks", "likelihoods"):
    app.add_typer(catalogue.group(kind), name=kind)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command; errors are one sentence and a non-zero exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding that lacks a character is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except UntwineError as error:
        say(f"error: {error}")
        sys.exit(2 if isinstance(error, ParameterError) else 1)
    except OSError as error:  # a file or directory that cannot be read or written
        say(f"error: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
