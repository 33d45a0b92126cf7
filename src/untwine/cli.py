"""The command `untwine`. Heavy modules are imported inside the commands that need them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untwine.errors import ParameterError, UntwineError

if TYPE_CHECKING:
    from untwine.scoring import Score

app = typer.Typer(
    help="Variational autoencoders whose latent space has structure: train, measure, look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Out = Annotated[
    Path, typer.Option("--out", envvar="UNTWINE_RUNS", help="Directory that holds the runs.")
]
RunName = Annotated[str, typer.Argument(help="A run directory, or a part of its name.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto for the best there is.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@app.command()
def train(
    model: Annotated[str, typer.Argument(help="A model, or several: jigsaw+beta-tcvae.")],
    data: Annotated[str, typer.Argument(help="A dataset, a folder of images, an .npy or .npz.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter; may be repeated."),
    ] = None,
    latent: Annotated[int, typer.Option(help="Number of latents.")] = 10,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 10_000,
    batch: Annotated[int, typer.Option(help="Examples per step.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Seed of weights, data order and noise.")] = 0,
    network: Annotated[
        str | None, typer.Option(help="conv, mlp, ...; by default what fits the data.")
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(help="bernoulli, gaussian, ...; by default the dataset's own.")
    ] = None,
    out: Out = Path("runs"),
    device: Device = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; all by default.")
    ] = None,
    compile: Annotated[
        Literal["auto", "yes", "no"],
        typer.Option(help="Compile the model; auto: long runs on a GPU."),
    ] = "auto",
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between two saved states.")
    ] = 1000,
    quiet: Quiet = False,
) -> None:
    """Train a model on data in a directory of its own.

    The directory's name holds a hash of the specification: all names and numbers below except
    device, threads and compilation, which change no more than rounding. The same command again goes
    on where it was interrupted, and does nothing when the run is finished.

    \b
    Examples:
      untwine train vae sprites
      untwine train beta-tcvae sprites --set beta=6 --set size=32 --steps 20000
      untwine train beta-vae ./photos --set folder.size=64 --latent 32
      untwine train vae data.npz --network mlp --set mlp.width=512 --likelihood gaussian

    What can be named and set: `untwine models`, `datasets`, `networks`, `likelihoods`, and
    `untwine models show NAME`.
    """
    from untwine.runs import is_finished, run
    from untwine.spec import plan

    spec = plan(
        model,
        data,
        network=network,
        likelihood=likelihood,
        settings=settings or [],
        latent=latent,
        steps=steps,
        batch=batch,
        lr=lr,
        seed=seed,
    )
    finished = is_finished(out / spec.directory)
    try:
        path = run(
            spec,
            out,
            device=device,
            threads=threads,
            compile=compile,
            checkpoint_every=checkpoint_every,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on from {out / spec.directory}")
        raise typer.Exit(130) from None
    say(f"{'already finished' if finished else 'finished'}: {path}")
    say(f"next: untwine evaluate {path}   or   untwine report {path}")
    print(path)


@app.command()
def evaluate(
    run: RunName,
    names: Annotated[
        str | None, typer.Option("--metrics", help="Names with commas; all that apply by default.")
    ] = None,
    n: Annotated[int, typer.Option("--examples", min=2, help="Examples to score on.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of their choice.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter of a metric."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Out = Path("runs"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Score a finished run.

    Each score stands beside what noise, a rotation of the true factors and the true factors
    themselves would get on the same examples. Scores are kept in the run's directory; only new ones
    are computed.

    \b
    Examples:
      untwine evaluate beta-tcvae
      untwine evaluate runs/beta-tcvae-sprites-3f2a --metrics mig --set bins=30
    """
    from untwine.runs import find_run
    from untwine.scoring import evaluate_run

    chosen = None if names in (None, "all") else [name.strip() for name in names.split(",")]
    scores = evaluate_run(
        find_run(run, out),
        chosen,
        n=n,
        seed=seed,
        device=device,
        quiet=quiet,
        settings=settings or [],
    )
    if as_json:
        print(json.dumps({k: {"values": v.values, **v.references} for k, v in scores.items()}))
    else:
        show_table(["score", "value", "random", "rotated", "perfect"], score_rows(scores))


def score_rows(scores: "dict[str, Score]") -> list[list[str]]:
    """A row per value: its name, and how noise, a rotation and the true factors would do."""
    from untwine.runs import value_name

    return [
        [
            value_name(name, key),
            f"{value:.4f}",
            *(
                f"{score.references[kind][key]:.4f}" if score.references else ""
                for kind in ("random", "rotated", "perfect")
            ),
        ]
        for name, score in scores.items()
        for key, value in score.values.items()
    ]


@app.command()
def report(
    run: RunName,
    out: Out = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Write one HTML file that shows a finished run: scores, traversals, samples, loss curves.

    \b
    Example:
      untwine report beta-tcvae
    """
    from untwine.report import write_report
    from untwine.runs import find_run

    print(write_report(find_run(run, out), quiet=quiet))


@app.command()
def cite(
    model: Annotated[str, typer.Argument(help="A model, or several: jigsaw+beta-tcvae.")],
) -> None:
    """Print the BibTeX of exactly the models that are used.

    \b
    Example:
      untwine cite jigsaw+beta-tcvae
    """
    from untwine.compositions import citations

    print("\n\n".join(citations(model)))


@app.command()
def runs(out: Out = Path("runs")) -> None:
    """List the runs that are there, with their state and scores."""
    from untwine.runs import describe_runs

    rows = describe_runs(out)
    if not rows:
        say(f"no runs in {out}; make one with: untwine train vae sprites")
        return
    show_table(["run", "model", "data", "seed", "steps", "state", "scores"], rows)


def catalogue(kind: str) -> typer.Typer:
    """The commands `untwine KIND` and `untwine KIND show NAME`."""
    singular = kind.removesuffix("s")
    group = typer.Typer(
        help=f"List the {kind}, or show one.", rich_markup_mode=None, add_completion=False
    )

    @group.callback(invoke_without_command=True)
    def everything(
        context: typer.Context,
        markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
        pairs: Annotated[
            bool,
            typer.Option(hidden=kind != "models", help="Which models combine, by building all."),
        ] = False,
    ) -> None:
        from untwine.catalogue import markdown_table, table

        if context.invoked_subcommand:
            return
        if pairs and kind == "models":
            show_pairs()
            return
        if markdown:
            print(markdown_table(kind))
            return
        show_table(*table(kind))
        say(f"more of one: untwine {kind} show NAME")

    @group.command(help=f"Say what a {singular} is, with its parameters and its paper.")
    def show(name: Annotated[str, typer.Argument(help="As the list gives it.")]) -> None:
        from untwine.catalogue import page

        print(page(kind, name))

    return group


for _kind in ("models", "datasets", "metrics", "networks", "likelihoods"):
    app.add_typer(catalogue(_kind), name=_kind)


def show_pairs() -> None:
    """The matrix of pairs, and the reasons of those refused."""
    from untwine.compositions import matrix, refusals

    found = refusals()
    show_table(*matrix(found))
    for pair, reason in found.items():
        if reason:
            say(f"{'+'.join(pair)}: {reason}")


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in [header, *rows]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    Console().print(grid)


def say(text: str) -> None:
    """A word to the person, not part of the output."""
    print(text, file=sys.stderr)


def main() -> None:
    """The command's entry: errors are one sentence and a non-zero exit."""
    try:
        app()
    except UntwineError as error:
        say(f"error: {error}")
        sys.exit(2 if isinstance(error, ParameterError) else 1)
    except OSError as error:  # a place that cannot be read or written
        say(f"error: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
