"""The commands that measure and report runs, and score codes from other libraries."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untwine.cli.options import Command as Command
from untwine.cli.options import (
    DataPlace,
    Device,
    Json,
    Metrics,
    Quiet,
    RunName,
    Runs,
    Settings,
    Trust,
)
from untwine.errors import ParameterError
from untwine.tools.terminal import say, show_path, show_table

if TYPE_CHECKING:
    from untwine.scoring.scores import Scores

MAX_VALUES_SHOWN = 3  # of one metric in a table
REFERENCES = ("random", "rotated", "perfect")
TABLE_FORMAT, CSV_FORMAT = ".4f", ".9g"


def evaluate(
    run: RunName,
    metrics: Metrics = None,
    n_examples: Annotated[
        int, typer.Option("--examples", min=2, help="Number of examples to score on.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed for choosing the examples.")] = 0,
    split: Annotated[
        str | None,
        typer.Option(
            help="training, validation, all, or a split of the dataset. By default the held-out "
            "examples, if there are any, else all."
        ),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
    data: DataPlace = "",
    trust: Trust = False,
    out: Runs = Path("runs"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Score a finished run.

    Each score is shown next to those of three reference codes on the same examples: noise, the
    rotated true factors and the true factors. Scores are stored in the run's directory, and only
    new ones are computed. Without --metrics, computes every applicable metric that finishes in
    seconds; `all` adds the slow ones and every variant.

    \b
    Examples:
      untwine evaluate beta-tcvae
      untwine evaluate beta-tcvae --metrics all
      untwine evaluate runs/beta-tcvae-sprites-3f2a --metrics mig,sap[svm] --set bins=30
      untwine evaluate vae-photos --data /new/place/photos
    """
    from untwine.runs.finding import find_run
    from untwine.scoring.evaluation import evaluate_run

    scores = evaluate_run(
        find_run(run, out),
        split_names(metrics),
        n_examples=n_examples,
        seed=seed,
        device=device,
        quiet=quiet,
        settings=settings or [],
        split=split,
        data=data,
        trust=trust,
    )
    print_scores(scores, "json" if as_json else "table")


def score(
    codes: Annotated[Path, typer.Argument(help="(N, D) codes: .npy, .npz or .csv.")],
    factors: Annotated[
        Path | None, typer.Argument(help="(N, K) levels of the true factors, whole numbers.")
    ] = None,
    test_codes: Annotated[Path | None, typer.Option(help="Codes to test on.")] = None,
    test_factors: Annotated[Path | None, typer.Option(help="Factors to test on.")] = None,
    other_codes: Annotated[
        list[Path] | None,
        typer.Option(help="Codes of another model for the same examples, for udr; repeatable."),
    ] = None,
    metrics: Metrics = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of seeds for the standard deviation.")
    ] = 5,
    n_examples: Annotated[
        int, typer.Option("--examples", min=6, help="Most rows to score; more are subsampled.")
    ] = 15_000,
    settings: Settings = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    quiet: Quiet = False,
) -> None:
    """Score codes from any library against factors.

    Each score is shown with its standard deviation over seeds, next to the scores of three
    reference codes: noise, the rotated true factors and the true factors. The seed chooses the
    held-out rows (a third, unless test files are given), the subsample of more than --examples
    rows, and the random numbers of a metric. `--metrics all` adds every variant. The table shows
    the first three values of a metric; --json and --csv show all.

    \b
    Examples:
      untwine score codes.npy factors.npy
      untwine score codes.npy factors.npy --metrics mig,sap[svm],dci --json
      untwine score codes.npy                        (metrics that need no factors)
      untwine score a.npy --other-codes b.npy --other-codes c.npy --metrics udr
    """
    from untwine.scoring.rows import read_rows, rows_used, score_rows

    if as_json and as_csv:
        raise ParameterError("--json and --csv exclude each other; choose one")
    rows = read_rows(codes, factors, test_codes, test_factors, other_codes or [])
    used, total = rows_used(rows, n_examples)
    if used < total:
        say(f"scored on {used:,} of {total:,} rows for each seed; --examples sets how many")
    scores = score_rows(
        rows,
        split_names(metrics),
        seeds=seeds,
        n_examples=n_examples,
        quiet=quiet,
        settings=settings or [],
    )
    print_scores(scores, "json" if as_json else "csv" if as_csv else "table")
    if not scores:
        raise typer.Exit(1)


def split_names(names: str | None) -> list[str] | str | None:
    """Split names at commas that are not inside parentheses; `all` stays as it is."""
    if names is None or names.strip() == "all":
        return names and "all"
    return [name.strip() for name in re.split(r",(?![^(]*\))", names) if name.strip()]


def print_scores(scores: "Scores", form: str) -> None:
    """Print scores as a table, or as JSON or CSV for a program."""
    if form == "json":
        from dataclasses import asdict

        notes = {name: {"note": note} for name in scores if (note := scores.note(name))}
        print(json.dumps({name: asdict(v) | notes.get(name, {}) for name, v in scores.items()}))
        return
    columns = ["value", *REFERENCES]
    if any(value.spread for value in scores.values()):
        columns.insert(1, "sd")
    if any(map(scores.note, scores)):
        columns.append("note")
    if form == "table":
        titles = {"sd": "± seeds"}
        rows = table_rows(scores, columns, TABLE_FORMAT, MAX_VALUES_SHOWN)
        show_table(["score", *(titles.get(name, name) for name in columns)], rows)
        return
    import csv

    writer = csv.writer(sys.stdout)
    writer.writerows([["score", *columns], *table_rows(scores, columns, CSV_FORMAT)])


def table_rows(
    scores: "Scores", columns: list[str], number: str, max_values: int | None = None
) -> list[list[str]]:
    """A row per value: its name, and its columns as far as it has them."""
    from untwine.registry import value_name

    rows: list[list[str]] = []
    for name, score in scores.items():
        for key, value in list(score.values.items())[:max_values]:
            numbers = {
                "value": value,
                **{k: v[key] for k, v in score.references.items() if key in v},
            }
            numbers |= {"sd": score.spread[key]} if key in score.spread else {}
            cells = {column: format(v, number) for column, v in numbers.items()}
            cells["note"] = scores.note(name)
            rows.append([value_name(name, key), *(cells.get(column, "") for column in columns)])
    return rows


def report(
    run: RunName,
    metrics: Metrics = None,
    n_examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            min=2,
            help="Number of examples to score on; that of the stored scores by default, or 10,000.",
        ),
    ] = None,
    data: DataPlace = "",
    trust: Trust = False,
    out: Runs = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Write an HTML report of a finished run: scores, traversals, samples, loss curves.

    Stored scores are shown as they are, and only missing ones are computed. Without --metrics, the
    report shows every stored score and every applicable metric that finishes in seconds.

    \b
    Examples:
      untwine report beta-tcvae
      untwine report beta-tcvae --metrics mig,dci --examples 1000
    """
    from untwine.report.run import write_report
    from untwine.runs.finding import find_run

    names = split_names(metrics)
    where = find_run(run, out)
    how = {"n_examples": n_examples, "quiet": quiet, "data": data, "trust": trust}
    show_path(write_report(where, metrics=names, **how))
