"""The command `untwine`. Heavy modules are imported inside the commands that need them."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untwine import explore_cli, reproduce_cli, study_cli
from untwine.errors import ParameterError, UntwineError
from untwine.terminal import say, show_table

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
SHOWN = 3  # values of a metric in a table


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
        str | None, typer.Option("--metrics", help="Names with commas, or all; quick by default.")
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
    are computed. Without --metrics all that apply and take no more than seconds are computed;
    `all` adds the slow ones and every variant.

    \b
    Examples:
      untwine evaluate beta-tcvae
      untwine evaluate beta-tcvae --metrics all
      untwine evaluate runs/beta-tcvae-sprites-3f2a --metrics mig,sap[svm] --set bins=30
    """
    from untwine.runs import find_run
    from untwine.scoring import evaluate_run

    scores = evaluate_run(
        find_run(run, out),
        listed(names),
        n=n,
        seed=seed,
        device=device,
        quiet=quiet,
        settings=settings or [],
    )
    show_scores(scores, "json" if as_json else "table")


@app.command()
def score(
    codes: Annotated[Path, typer.Argument(help="(N, D) codes: .npy, .npz or .csv.")],
    factors: Annotated[
        Path | None, typer.Argument(help="(N, K) levels of the true factors, whole numbers.")
    ] = None,
    test_codes: Annotated[Path | None, typer.Option(help="Codes to test on.")] = None,
    test_factors: Annotated[Path | None, typer.Option(help="Factors to test on.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Codes of another model for the same examples, for udr; repeatable."),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option("--metrics", help="Names with commas; all that apply by default."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds over which the spread is told.")] = 5,
    rows: Annotated[int, typer.Option(min=6, help="Rows to score, if there are more.")] = 15_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter of a metric."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    quiet: Quiet = False,
) -> None:
    """Score codes from anywhere against factors.

    Each score stands beside its standard deviation over seeds, and what noise, a rotation of the
    true factors and the true factors themselves would get. A seed decides which rows are held back
    to test on (a third, unless files for that are given), which are taken when there are more than
    --rows, and what a metric draws. `--metrics all` adds every variant. The table shows the first
    three values of a metric, --json and --csv show all.

    \b
    Examples:
      untwine score codes.npy factors.npy
      untwine score codes.npy factors.npy --metrics mig,sap[svm],dci --json
      untwine score codes.npy                        (what can be said without factors)
      untwine score a.npy --against b.npy --against c.npy --metrics udr
    """
    from untwine.arrays import read_rows
    from untwine.scoring import part_scored, score_rows

    if as_json and as_csv:
        raise ParameterError("--json and --csv exclude each other; choose one")
    given = read_rows(codes, factors, test_codes, test_factors, against or [])
    used, there = part_scored(given, rows)
    if used < there:
        say(f"scored on {used:,} of {there:,} rows for each seed; --rows sets how many")
    found = score_rows(
        given, listed(names), seeds=seeds, most=rows, quiet=quiet, settings=settings or []
    )
    show_scores(found, "json" if as_json else "csv" if as_csv else "table")
    if not found:
        raise typer.Exit(1)


def listed(names: str | None) -> list[str] | str | None:
    """Names parted by commas that are not inside parentheses; `all` as it is."""
    if names is None or names.strip() == "all":
        return names and "all"
    return [name.strip() for name in re.split(r",(?![^(]*\))", names) if name.strip()]


def show_scores(scores: "dict[str, Score]", form: str) -> None:
    """Scores as a table to read, or as JSON or CSV for a program."""
    if form == "json":
        from dataclasses import asdict

        print(json.dumps({name: asdict(value) for name, value in scores.items()}))
        return
    spread = any(value.spread for value in scores.values())
    few = SHOWN if form == "table" else None
    header = ["score", "value", *(["± seeds"] if spread else []), "random", "rotated", "perfect"]
    rows = table_rows(scores, spread, few)
    if form == "table":
        show_table(header, rows)
        return
    import csv

    writer = csv.writer(sys.stdout)
    writer.writerows([[name.removeprefix("± ") for name in header], *rows])


def table_rows(scores: "dict[str, Score]", spread: bool, few: int | None) -> list[list[str]]:
    """A row per value: its name, and how noise, a rotation and the true factors would do."""
    from untwine.runs import value_name

    return [
        [
            value_name(name, key),
            f"{value:.4f}",
            *([f"{score.spread[key]:.4f}" if key in score.spread else ""] if spread else []),
            *(
                f"{score.references[kind][key]:.4f}"
                if key in score.references.get(kind, {})
                else ""
                for kind in ("random", "rotated", "perfect")
            ),
        ]
        for name, score in scores.items()
        for key, value in list(score.values.items())[:few]
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


app.add_typer(study_cli.app, name="study")
app.command()(reproduce_cli.reproduce)
app.command()(explore_cli.explore)
for _kind in ("models", "datasets", "metrics", "networks", "likelihoods"):
    app.add_typer(catalogue(_kind), name=_kind)


data_commands = typer.Typer(
    help="Data on this machine: list, fetch, find, check, look.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(data_commands, name="data")
DataName = Annotated[str, typer.Argument(help="A dataset, as in mnist or mnist-01(of=digits).")]
DataSettings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter; may be repeated."),
]


@data_commands.command("list")
def list_data() -> None:
    """List the datasets: what is in them, their licences, whether their files are here."""
    from untwine.library import overview

    show_table(*overview())
    say("more of one: untwine datasets show NAME, untwine data look NAME")


@data_commands.command("fetch")
def fetch_data(name: DataName, quiet: Quiet = False) -> None:
    """Download the files of a dataset, and print where they are.

    A transfer that broke off goes on where it stopped, and every file is checked. Without a
    network it says which file to put where.

    \b
    Example:
      untwine data fetch mnist
    """
    from untwine.library import fetch

    paths = fetch(name, quiet=quiet)
    if not paths:
        say(f"{name} needs no files")
    for path in paths:
        print(path)


@data_commands.command("where")
def where_data(name: DataName) -> None:
    """Print where a dataset lies: the cache, its files, and what was decoded from them."""
    from untwine.library import where

    show_table(["what", "path"], where(name))


@data_commands.command("check")
def check_data(name: DataName, settings: DataSettings = None) -> None:
    """Check a dataset: checksums of its files, examples, factors."""
    from untwine.library import check

    show_table(["what", "found"], check(name, settings or []))


@data_commands.command("look")
def look_at_data(
    name: DataName,
    settings: DataSettings = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The picture to write; NAME.png by default.")
    ] = None,
) -> None:
    """Write a picture of a dataset: random examples, and a row for each factor.

    In a row only that factor changes. Points of the plane are plotted.

    \b
    Examples:
      untwine data look sprites --set size=32
      untwine data look "coloured-mnist(of=digits)" --out digits.png
    """
    from untwine.library import look

    print(look(name, settings or [], out))


def show_pairs() -> None:
    """The matrix of pairs, and the reasons of those refused."""
    from untwine.compositions import matrix, refusals

    found = refusals()
    show_table(*matrix(found))
    for pair, reason in found.items():
        if reason:
            say(f"{'+'.join(pair)}: {reason}")


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
