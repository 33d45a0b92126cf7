"""The command that searches for parameters."""

from pathlib import Path
from typing import Annotated

import typer

from untwine.cli.options import Device, ModelName, Quiet, Runs, Settings
from untwine.tools.terminal import say, show_path, show_table

MAX_SHOWN = 5  # trials in the table


def tune(
    model: ModelName,
    data: Annotated[
        str, typer.Argument(help="A dataset, a folder of images, an .npy, .npz, .csv or .parquet.")
    ],
    search: Annotated[
        list[str],
        typer.Option(
            "--search",
            metavar="NAME=VALUES",
            help="LOW..HIGH, LOW..HIGH:log, or A,B,C for a parameter, latent, batch, lr or an "
            "option of the training; repeatable.",
        ),
    ],
    by: Annotated[str, typer.Option(help="The score: mig, elbo, dci.completeness, udr, ...")],
    trials: Annotated[int, typer.Option(min=1, help="Trials in all.")] = 30,
    file: Annotated[Path, typer.Option(help="Database of the search.")] = Path("tune.db"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each trial.", show_default="1; udr: 3")
    ] = None,
    prune: Annotated[bool, typer.Option(help="End trials early that do badly.")] = True,
    n_examples: Annotated[
        int, typer.Option("--examples", min=2, help="Number of examples to score on.")
    ] = 10_000,
    settings: Settings = None,
    latent: Annotated[int, typer.Option(help="Number of latents.")] = 10,
    steps: Annotated[int, typer.Option(help="Optimiser steps of each run.")] = 10_000,
    batch: Annotated[int, typer.Option(help="Examples per step.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="First seed of the runs, and of the search.")] = 0,
    validation: Annotated[
        str, typer.Option(help="Share of the data to hold out and score on, or a split.")
    ] = "0",
    network: Annotated[str | None, typer.Option(help="conv, mlp(width=128), ...")] = None,
    likelihood: Annotated[str | None, typer.Option(help="gaussian(variance=0.1), ...")] = None,
    out: Runs = Path("runs"),
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    quiet: Quiet = False,
) -> None:
    """Search for the parameters with the best score.

    Every trial is a run like any other; runs that exist already are not trained again. Repeat the
    command to resume a search, with more --trials to extend it. A page shows what was tried.

    \b
    Examples:
      untwine tune beta-vae sprites --search beta=0.5..20:log --by mig --trials 30
      untwine tune vae photos.npy --search latent=4..64:log --search lr=1e-4..3e-3:log --by elbo
      untwine tune beta-vae ./photos --search beta=1..16:log --by udr --seeds 3 --file photos.db
    """
    from untwine.scoring.values import ScoreName
    from untwine.tuning.page import write_tuning_page
    from untwine.tuning.search import short
    from untwine.tuning.search import tune as search_parameters

    compares = ScoreName.read(by).compares_runs
    numbers = {"latent": latent, "steps": steps, "batch": batch, "lr": lr, "seed": seed}
    pieces = {"network": network, "likelihood": likelihood, "validation": validation}
    try:
        tuning = search_parameters(
            model,
            data,
            search,
            by=by,
            trials=trials,
            file=file,
            seeds=seeds or (3 if compares else 1),
            prune=prune,
            n_examples=n_examples,
            out=out,
            device=device,
            threads=threads,
            quiet=quiet,
            settings=settings or [],
            **numbers,
            **pieces,
        )
    except KeyboardInterrupt:
        say(f"interrupted; run the same command to resume {file}")
        raise typer.Exit(130) from None
    names = [dimension.name for dimension in tuning.dimensions]
    rows = [
        [str(one.number), *(short(one.values[name]) for name in names), f"{one.score:.4g}"]
        for one in tuning.finished[:MAX_SHOWN]
    ]
    page = write_tuning_page(tuning)
    show_table(["trial", *names, str(tuning.by)], rows)
    say(f"page: {page}")
    say(f"best run: {tuning.best_run}")
    show_path(tuning.best_run)
