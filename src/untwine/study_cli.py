"""The command `untwine study`. Heavy modules are imported inside the commands that need them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from untwine.errors import ParameterError
from untwine.terminal import say, show_table

if TYPE_CHECKING:
    from untwine.jobs import Job
    from untwine.launch import Outcome
    from untwine.results import Folder

app = typer.Typer(
    help="Many models at once: plan, run, and read a study.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A YAML file, or a shipped study.")]
Scale = Annotated[str, typer.Option(help="One of the file's scales, such as laptop or paper.")]
Out = Annotated[
    Path,
    typer.Option("--out", envvar="UNTWINE_STUDIES", help="Directory that holds the studies."),
]
Name = Annotated[str, typer.Argument(metavar="STUDY", help="A study's directory or its name.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@app.command("list")
def list_studies(out: Out = Path("studies")) -> None:
    """List the studies that come with the package, and those that were begun here."""
    from untwine.results import open_folder, states
    from untwine.study import read_document, shipped

    rows: list[list[str]] = []
    for name in shipped():
        document = read_document(name)
        scales = ", ".join(document.content.get("scales") or {})
        rows.append([name, "shipped", f"scales: {scales}", str(document.content.get("about", ""))])
    for file in sorted(out.glob("*/study.json")):
        folder = open_folder(file.parent)
        found = "imported" if folder.imported else _counts(states(folder))
        rows.append([folder.study.name, str(file.parent), found, folder.study.about])
    show_table(["study", "where", "state", "about"], rows)


@app.command()
def plan(
    file: File,
    scale: Scale = "",
    timing: Annotated[bool, typer.Option(help="Train a few steps to tell the time.")] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes to reckon with.")] = 1,
) -> None:
    """Check a study without running it: its runs, and what they will take.

    \b
    Example:
      untwine study plan constrained-vaes --scale laptop
    """
    from untwine.estimate import estimate
    from untwine.monitor import duration
    from untwine.results import described, varying_numbers
    from untwine.study import read_study
    from untwine.together import pays

    study = read_study(file, scale)
    varying = varying_numbers(study.runs)
    rows: dict[tuple[str, str], int] = {}
    for run in study.runs:
        what = described(run, varying)
        rows[what["setting"], what["data"]] = rows.get((what["setting"], what["data"]), 0) + 1
    show_table(["setting", "data", "seeds"], [[*what, str(seeds)] for what, seeds in rows.items()])
    say(f"{len(study.runs):,} runs, scored with {', '.join(study.metrics) or 'nothing'}")
    if timing:
        found = estimate(study)
        say(
            f"training takes about {duration(found.seconds / workers)} with {workers} "
            f"process{'es' if workers > 1 else ''} of one thread, scoring apart, and "
            f"{found.bytes / 1e6:,.0f} MB of disk"
        )
        several = len(study.settings) < len(study.runs)
        if several and any(pays(run) for run in study.settings):
            say("seeds of small models are trained together, which takes less time than that")


@app.command()
def run(
    file: File,
    scale: Scale = "",
    workers: Annotated[
        int, typer.Option(min=0, help="Runs at a time; 0 for one per core, on Ray for no limit.")
    ] = 0,
    on: Annotated[
        str, typer.Option(help="local, ray (a cluster that is there or here), or ray://HOST:PORT.")
    ] = "local",
    runs: Annotated[
        str, typer.Option(help="Where runs go, for Ray: a shared directory or an fsspec URL.")
    ] = "",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of each run.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each run, for Ray.")] = 0,
    retries: Annotated[int, typer.Option(min=0, help="Times a failed run is tried again.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "cpu",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between states.")] = 1000,
    out: Out = Path("studies"),
    quiet: Quiet = False,
) -> None:
    """Run a study, or go on with it: what is finished is not done again.

    Every run is built and tried on a small batch before the first one starts. Ctrl-C stops cleanly;
    the same command goes on. A run that fails is tried again, then left with its reason in its
    directory while the others go on.

    \b
    Examples:
      untwine study run constrained-vaes --scale laptop --workers 2
      untwine study run my-study.yaml --on ray --workers 100
    """
    from untwine.results import make_folder
    from untwine.study import read_study

    if on != "local" and on != "ray" and not on.startswith("ray://"):
        raise ParameterError(f"--on is local, ray or ray://HOST:PORT, not {on!r}")
    if runs and on == "local":
        raise ParameterError("--runs is for Ray; a local study keeps its runs in its directory")
    folder = make_folder(read_study(file, scale), out, runs=runs)
    if folder.remote and on == "local":
        raise ParameterError(
            f"the runs of {folder.path} are kept at {folder.place}; go on with --on ray, or begin "
            "again with another --out"
        )
    how = {"threads": threads, "device": device, "checkpoint_every": checkpoint_every}
    try:
        if on == "local":
            outcome = run_here(folder, workers=workers, retries=retries, quiet=quiet, **how)
        else:
            from untwine.cluster import launch_on_ray

            outcome = launch_on_ray(
                folder.jobs(**how),
                address=on,
                runs=folder.place,
                workers=workers,
                gpus=gpus,
                retries=retries,
                quiet=quiet,
            )
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on from {folder.path}")
        raise typer.Exit(130) from None
    tell_outcome(outcome, folder.path, len(folder.study.runs))
    print(folder.path)
    if outcome.failed:
        raise typer.Exit(1)


def run_here(
    folder: "Folder", *, workers: int = 0, retries: int = 1, quiet: bool = False, **how: Any
) -> "Outcome":
    """Do what is left of a study in processes on this machine."""
    import os

    from untwine.jobs import grouped, is_complete
    from untwine.launch import launch, stopped_by_signals
    from untwine.monitor import monitor

    jobs, workers = folder.jobs(**how), workers or os.cpu_count() or 1
    todo = grouped([job for job in jobs if not is_complete(job)], workers)
    with stopped_by_signals(), monitor(len(jobs), len(jobs) - len(todo), quiet=quiet) as watch:
        return launch(todo, workers=workers, retries=retries, watch=watch)


def tell_outcome(outcome: "Outcome", path: Path, planned: int) -> None:
    """Say how a launch ended, run by run where one failed."""
    done = planned - len(outcome.failed) - len(outcome.busy)
    say(f"{done:,} of {planned:,} runs done in {path}")
    if outcome.busy:
        count = len(outcome.busy)
        say(f"{count:,} run{'s are' if count > 1 else ' is'} being worked on elsewhere")
    for directory, reason in outcome.failed.items():
        say(f"failed: {directory}: {reason.strip().rpartition(chr(10))[2]}")


@app.command()
def status(study: Name, out: Out = Path("studies")) -> None:
    """Say how far a study is; also while it runs."""
    from untwine.results import failure, states

    found = states(_opened(study, out))
    show_table(["state", "runs"], [[name, str(len(jobs))] for name, jobs in found.items()])
    for job in found["failed"]:
        say(f"failed: {job.path}: {failure(job)}")


@app.command()
def results(
    study: Name,
    csv: Annotated[Path | None, typer.Option(help="Write CSV; - for the terminal.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write Parquet.")] = None,
    out: Out = Path("studies"),
) -> None:
    """The scores of all runs that have some, as a table; also while the study runs.

    \b
    Examples:
      untwine study results constrained-vaes-laptop
      untwine study results constrained-vaes-laptop --csv scores.csv
    """
    import sys

    from untwine.results import results as collect

    table = collect(_opened(study, out))
    if csv is not None:
        table.to_csv(sys.stdout if str(csv) == "-" else csv, index=False)
    if parquet is not None:
        table.to_parquet(parquet, index=False)
    if csv is None and parquet is None:
        numbers = table.drop(columns=["run", "seed", "value", "model"], errors="ignore")
        means = numbers.groupby(["setting", "data"], sort=False).mean(numeric_only=True)
        shown = means.reset_index()
        rows = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in r] for r in shown.values]
        show_table(list(shown.columns), rows)
        say("means over seeds; --csv or --parquet writes every run")


@app.command()
def report(
    study: Name,
    published: Annotated[
        str, typer.Option(help="An imported study to draw behind the figures.")
    ] = "",
    out: Out = Path("studies"),
    quiet: Quiet = False,
) -> None:
    """Write one HTML page, and its figures as files, that say what a study found.

    \b
    Example:
      untwine study report constrained-vaes-laptop
    """
    from untwine.results import open_folder
    from untwine.study_report import write_study_report

    behind = open_folder(published, out) if published else None
    print(write_study_report(_opened(study, out), published=behind, quiet=quiet))


@app.command("import")
def import_results(
    files: Annotated[list[Path], typer.Argument(help="CSV files of published results.")],
    name: Annotated[str, typer.Option(help="What the study is called here.")] = "published",
    out: Out = Path("studies"),
) -> None:
    """Read results that others published, so that they can be reported and compared with.

    \b
    Example:
      untwine study import dsprites_full.csv.gz cars3d.csv.gz --name published
    """
    from untwine.published import import_published

    folder, rows = import_published(files, name, out)
    say(f"{rows:,} runs; next: untwine study report {folder.path}")
    print(folder.path)


@app.command()
def best(
    study: Name,
    by: Annotated[str, typer.Option(help="A score, or udr, which needs no factors.")] = "udr",
    out: Out = Path("studies"),
) -> None:
    """Name the models to use, by a score or without labels by UDR.

    \b
    Examples:
      untwine study best constrained-vaes-laptop
      untwine study best constrained-vaes-laptop --by mig
    """
    from untwine.selection import best_runs

    header, rows, sentence = best_runs(_opened(study, out), by)
    show_table(header, rows)
    say(sentence)


def _opened(study: str, out: Path) -> "Folder":
    """A study's folder, with what is new at the address of its runs."""
    from untwine.results import open_folder

    folder = open_folder(study, out)
    folder.refresh()
    return folder


def _counts(found: "dict[str, list[Job]]") -> str:
    return ", ".join(f"{len(jobs)} {name}" for name, jobs in found.items() if jobs)
