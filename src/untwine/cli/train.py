"""The commands that make, list and remove runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untwine.cli.options import Device, ModelName, Quiet, Runs, Settings, Track
from untwine.schema import MAX_THREADS
from untwine.tools.terminal import say, show_path, show_table

if TYPE_CHECKING:
    from untwine.spec import Run


def train(
    model: ModelName,
    data: Annotated[
        str, typer.Argument(help="A dataset, a folder of images, an .npy, .npz, .csv or .parquet.")
    ],
    settings: Settings = None,
    latent: Annotated[int, typer.Option(help="Number of latents.")] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Optimiser steps.", show_default="10000")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes through the data, not --steps.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Examples per step.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Seed of weights, data order and noise.")] = 0,
    validation: Annotated[
        str, typer.Option(help="Share of the data to hold out, or a split of the dataset.")
    ] = "0",
    patience: Annotated[
        int,
        typer.Option(help="Rows without a lower validation loss until it stops; 0: never."),
    ] = 0,
    optimiser: Annotated[
        str, typer.Option(help="adam, adamax, adamw, nadam, radam, rmsprop or sgd.")
    ] = "adam",
    weight_decay: Annotated[float, typer.Option(help="Weight decay of the optimiser.")] = 0.0,
    clip: Annotated[float, typer.Option(help="Largest norm of the gradient; 0: any.")] = 0.0,
    schedule: Annotated[
        str, typer.Option(help="Of the learning rate: constant, cosine, linear or plateau.")
    ] = "constant",
    warm_up: Annotated[int, typer.Option(help="Steps over which the learning rate rises.")] = 0,
    network: Annotated[
        str | None, typer.Option(help="conv, mlp(width=128), ...; by default what fits the data.")
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(help="gaussian(variance=0.1), ...; by default the dataset's own.")
    ] = None,
    out: Runs = Path("runs"),
    device: Device = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_THREADS, help="CPU threads; all by default, 1 for small dense networks."
        ),
    ] = None,
    compile: Annotated[
        Literal["auto", "yes", "no"],
        typer.Option(help="Compile the model; auto: long runs on a GPU."),
    ] = "auto",
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between two checkpoints.")
    ] = 1000,
    track: Track = "",
    name: Annotated[str, typer.Option(help="What to call the run; not part of its hash.")] = "",
    quiet: Quiet = False,
) -> None:
    """Train a model in a new run directory.

    The directory is called NAME-MODEL-DATA-HASH, with a hash of the specification: every name and
    number below except device, threads and compilation, which affect rounding only. Repeat the
    command to resume an interrupted run; finished runs are skipped.

    \b
    Examples:
      untwine train vae sprites
      untwine train beta-tcvae sprites --set beta=6 --set size=32 --steps 20000
      untwine train beta-vae ./photos --set folder.size=64 --latent 32
      untwine train vae mnist --epochs 20 --validation 0.1 --patience 10 --schedule cosine
      untwine train vae people.csv --set table.factors=species
      untwine train vae sprites --latent 4 --name small
      untwine train vae data.npz --network mlp --set mlp.width=512 --likelihood gaussian

    `untwine models`, `datasets`, `networks` and `likelihoods` list what can be named; `untwine
    models show NAME` lists its parameters.
    """
    from untwine.registry import datasets
    from untwine.runs.directory import is_finished
    from untwine.runs.names import place_run
    from untwine.runs.training import resumable, run
    from untwine.spec import plan

    if Path(data).exists() and data in datasets:
        say(f"{data} is the dataset of that name; write ./{data} for your own of the same name")
    asked = plan(
        model,
        data,
        network=network,
        likelihood=likelihood,
        settings=settings or [],
        latent=latent,
        steps=steps,
        epochs=epochs,
        batch=batch,
        lr=lr,
        seed=seed,
        validation=validation,
        patience=patience,
        optimiser=optimiser,
        weight_decay=weight_decay,
        clip=clip,
        schedule=schedule,
        warm_up=warm_up,
    )
    spec = resumable(asked, out)
    path = place_run(spec, out, name)
    was_finished = is_finished(path)
    _announce(asked, spec, path, name, chosen=likelihood is not None)
    try:
        run(
            spec,
            out,
            device=device,
            threads=threads,
            compile=compile,
            checkpoint_every=checkpoint_every,
            track=track,
            name=name,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        say(f"interrupted; run the same command to resume {path}")
        raise typer.Exit(130) from None
    say(f"{'already finished' if was_finished else 'finished'}: {path}")
    say(f"next: untwine evaluate {path}   or   untwine report {path}")
    show_path(path)


def _announce(asked: "Run", spec: "Run", path: Path, name: str, *, chosen: bool) -> None:
    """Say what a person may not expect of a run: that it exists, its data, its likelihood."""
    from untwine.data.opening import load_dataset
    from untwine.runs.describe import same_on_other_files, training_notes

    if spec != asked:
        say(f"{path} is the run of this folder, known by names and sizes of files")
    elif others := same_on_other_files(spec, path.parent):
        say(f"a new run is started: the data is not that of {', '.join(others)}")
    if name and path.exists() and not path.name.startswith(f"{name}-"):
        say(f"{path} is this run, and keeps its name; rename its directory to call it {name}")
    for note in training_notes(spec, load_dataset(spec.data), chosen=chosen):
        say(note)


def runs(out: Runs = Path("runs")) -> None:
    """List runs with their state and scores."""
    from untwine.runs.describe import describe_runs, read_specs, unmarked_runs

    specs = read_specs(out)
    if not specs:
        say(f"no runs in {out}; make one with: untwine train vae sprites")
        return
    show_table(["run", "model", "data", "seed", "steps", "state", "scores"], describe_runs(specs))
    if foreign := unmarked_runs(specs):
        say(
            f"{len(foreign)} of them name files and are not marked as yours, so these are not "
            f"opened; if they are yours: untwine trust {foreign[0] if len(foreign) == 1 else out}"
        )


def rm(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories, or parts of names.")
    ],
    out: Runs = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs: weights, history, scores and report.

    Asks first. A run that is being trained and a directory that is not a run are refused, and then
    nothing is removed.

    \b
    Examples:
      untwine rm small
      untwine rm runs/vae-sprites-1a2b3c4d5e6f --yes
    """
    from untwine.errors import ParameterError
    from untwine.runs.finding import find_run
    from untwine.runs.removing import remove_run, require_removable

    paths = list(dict.fromkeys(find_run(name, out) for name in runs))
    for path in paths:
        require_removable(path)
    if not yes:
        if not sys.stdin.isatty():
            raise ParameterError("untwine rm asks before it removes; write --yes to do so unasked")
        for path in paths:
            say(f"  {path}")
        typer.confirm(f"Remove {len(paths)} run{'s' * (len(paths) > 1)}?", abort=True, err=True)
    for path in paths:
        remove_run(path)
        say(f"removed: {path}")
