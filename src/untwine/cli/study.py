"""The commands `untwine study`. Heavy modules are imported inside the commands that need them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untwine.cli.options import Command, Device, Quiet, Studies, Track
from untwine.errors import ParameterError, UntwineError
from untwine.tools.terminal import printable, say, show_path, show_table

if TYPE_CHECKING:
    from untwine.study.folder import StudyFolder
    from untwine.study.job import Job
    from untwine.study.local import Outcome

app = typer.Typer(
    help="Many models at once: plan, run and read a study.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
File = Annotated[str, typer.Argument(metavar="FILE", help="A YAML file, or a shipped study.")]
Scale = Annotated[str, typer.Option(help="One of the file's scales, such as laptop or paper.")]
Name = Annotated[str, typer.Argument(metavar="STUDY", help="A study's directory or its name.")]


@app.command("list")
def list_studies(out: Studies = Path("studies")) -> None:
    """List the studies that come with the package and those in --out."""
    from untwine.study.document import read_document, shipped_studies
    from untwine.study.folder import list_folders, open_folder, runs_by_state

    rows: list[list[str]] = []
    for name in shipped_studies():
        document = read_document(name)
        scales = ", ".join(document.content.get("scales") or {})
        rows.append([name, "shipped", f"scales: {scales}", str(document.content.get("about", ""))])
    for path in list_folders(out):
        try:
            folder = open_folder(path)
            state = "imported" if folder.imported else count_states(runs_by_state(folder))
            rows.append([folder.study.name, str(path), state, folder.study.about])
        except (UntwineError, OSError) as error:
            rows.append([path.name, str(path), f"unreadable: {error}", ""])
    show_table(["study", "where", "state", "about"], rows)


@app.command(cls=Command)
def plan(
    file: File,
    scale: Scale = "",
    estimate: Annotated[
        bool, typer.Option(help="Train a few steps to estimate the run time.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers to assume.")] = 1,
) -> None:
    """Check a study without running it: its runs, and what they will cost.

    \b
    Example:
      untwine study plan constrained-vaes --scale laptop
    """
    from untwine.study.comparisons import power_sentence
    from untwine.study.estimate import estimate as estimate_cost
    from untwine.study.file import read_study
    from untwine.study.table import describe_run, varying_numbers
    from untwine.tools.terminal import format_duration

    study = read_study(file, scale)
    varying = varying_numbers(study.runs)
    seeds: dict[tuple[str, str], int] = {}
    for run in study.runs:
        columns = describe_run(run, varying)
        setting = columns["setting"], columns["data"]
        seeds[setting] = seeds.get(setting, 0) + 1
    show_table(["setting", "data", "seeds"], [[*key, str(count)] for key, count in seeds.items()])
    say(f"{len(study.runs):,} runs, scored with {', '.join(study.metrics) or 'nothing'}")
    if sentence := power_sentence(study):
        say(sentence)
    if estimate:
        cost = estimate_cost(study)
        say(
            f"training takes about {format_duration(cost.seconds / workers)} with {workers} "
            f"worker{'s' if workers > 1 else ''} of one thread, not counting scores, and "
            f"{cost.bytes / 1e6:,.0f} MB of disk"
        )


@app.command(cls=Command)
def run(
    file: File,
    scale: Scale = "",
    workers: Annotated[
        int, typer.Option(min=0, help="Runs at a time; 0 for one per core, on Ray for no limit.")
    ] = 0,
    backend: Annotated[
        str,
        typer.Option(
            help="local, ray (an existing cluster, or one started locally), or ray://HOST:PORT."
        ),
    ] = "local",
    storage: Annotated[
        str, typer.Option(help="Where Ray keeps the runs: a shared directory or an fsspec URL.")
    ] = "",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of each run.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each run, on Ray.")] = 0,
    retries: Annotated[int, typer.Option(min=0, help="Times a failed run is retried.")] = 1,
    device: Device = "cpu",
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between two checkpoints.")
    ] = 1000,
    track: Track = "",
    out: Studies = Path("studies"),
    quiet: Quiet = False,
) -> None:
    """Run or resume a study; finished runs are skipped.

    Every run is built and tried on a small batch before the first one starts. Ctrl-C saves
    checkpoints and stops; repeat the command to resume. A run that fails is retried; if it fails
    again, its directory holds the reason and the other runs continue.

    \b
    Examples:
      untwine study run constrained-vaes --scale laptop --workers 2
      untwine study run my-study.yaml --backend ray --workers 100
    """
    from untwine.study.file import read_study
    from untwine.study.folder import make_folder
    from untwine.study.running import check_backend
    from untwine.study.running import run as run_study

    check_backend(backend, storage)
    folder = make_folder(read_study(file, scale), out, storage=storage)
    try:
        outcome = run_study(
            folder,
            workers=workers,
            backend=backend,
            threads=threads,
            gpus=gpus,
            retries=retries,
            device=device,
            checkpoint_every=checkpoint_every,
            track=track,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        say(f"interrupted; run the same command to resume {folder.path}")
        raise typer.Exit(130) from None
    report_outcome(outcome, folder.path, len(folder.study.runs))
    show_path(folder.path)
    if outcome.failed:
        raise typer.Exit(1)


def report_outcome(outcome: "Outcome", path: Path, planned: int) -> None:
    """Say how many runs are done, and why others are not."""
    done = planned - len(outcome.failed) - len(outcome.busy)
    say(f"{done:,} of {planned:,} runs done in {path}")
    if outcome.busy:
        count = len(outcome.busy)
        say(f"{count:,} run{'s are' if count > 1 else ' is'} running in another process")
    for directory, reason in outcome.failed.items():
        say(f"failed: {directory}: {reason.strip().rpartition(chr(10))[2]}")


@app.command()
def status(study: Name, out: Studies = Path("studies")) -> None:
    """Show progress, even while the study runs."""
    from untwine.study.folder import failure_reason, runs_by_state

    jobs = runs_by_state(open_study(study, out))
    show_table(["state", "runs"], [[state, str(len(some))] for state, some in jobs.items()])
    for job in jobs["failed"]:
        say(f"failed: {job.path}: {failure_reason(job)}")


@app.command()
def results(
    study: Name,
    csv: Annotated[Path | None, typer.Option(help="Write CSV; - for the terminal.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write Parquet.")] = None,
    out: Studies = Path("studies"),
) -> None:
    """Show the scores of all scored runs as a table, even while the study runs.

    \b
    Examples:
      untwine study results constrained-vaes-laptop
      untwine study results constrained-vaes-laptop --csv scores.csv
    """
    from untwine.study.table import results_table
    from untwine.tools.tables import format_csv, write_csv, write_parquet

    table = results_table(open_study(study, out))
    if csv is not None and str(csv) == "-":
        print(printable(format_csv(table), keep="\n"), end="")
    elif csv is not None:
        write_csv(table, csv)
    if parquet is not None:
        write_parquet(table, parquet)
    if csv is None and parquet is None:
        from untwine.study.statistics import score_columns

        scores = ["seconds", *score_columns(table)]
        groups = table.groupby(["setting", "data"], sort=False)
        means = groups[scores].mean().reset_index()
        if "note" in table:
            notes = groups["note"].agg(
                lambda column: "; ".join(dict.fromkeys(filter(None, column)))
            )
            means["note"] = notes.to_numpy()
        rows = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in r] for r in means.values]
        show_table(list(means.columns), rows)
        say("means over seeds; --csv or --parquet writes every run with its parameters")


@app.command()
def table(
    study: Name,
    csv: Annotated[bool, typer.Option("--csv", help="CSV, a row for each mean.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="A LaTeX tabular (booktabs).")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown, the default.")] = False,
    by: Annotated[str, typer.Option(help="setting or model.")] = "setting",
    metrics: Annotated[
        str, typer.Option(help="Scores to show, separated by commas; by default all.")
    ] = "",
    out: Studies = Path("studies"),
) -> None:
    """Print mean ± standard deviation of every score, the best marked.

    The best mean is bold. † marks means that are not significantly worse: compared seed by seed
    with Student's test, corrected by Holm. The CSV has intervals and p values, too.

    \b
    Examples:
      untwine study table constrained-vaes-laptop --latex > table.tex
      untwine study table constrained-vaes-laptop --csv --metrics mig,udr
    """
    from untwine.study.statistics import check_scores
    from untwine.study.summary import Form, format_summary, summary_table
    from untwine.study.table import results_table

    if csv + latex + markdown > 1:
        raise ParameterError("choose one of --csv, --latex and --markdown")
    form: Form = "csv" if csv else "latex" if latex else "markdown"
    runs = results_table(open_study(study, out))
    summary = summary_table(runs, check_scores(runs, metrics.split(",")), by=by)
    print(printable(format_summary(summary, form, by=by), keep="\n"), end="")


@app.command()
def report(
    study: Name,
    published: Annotated[
        str, typer.Option(help="An imported study to draw behind the figures.")
    ] = "",
    out: Studies = Path("studies"),
    quiet: Quiet = False,
) -> None:
    """Write an HTML report of a study, and its figures as files.

    \b
    Example:
      untwine study report constrained-vaes-laptop
    """
    from untwine.report.study import write_study_report
    from untwine.study.folder import open_folder

    behind = open_folder(published, out) if published else None
    show_path(write_study_report(open_study(study, out), published=behind, quiet=quiet))


@app.command("import")
def import_results(
    files: Annotated[list[Path], typer.Argument(help="CSV files of published results.")],
    name: Annotated[str, typer.Option(help="Name of the study here.")] = "published",
    out: Studies = Path("studies"),
) -> None:
    """Import published results, to report them and compare with them.

    \b
    Example:
      untwine study import dsprites_full.csv.gz cars3d.csv.gz --name published
    """
    from untwine.study.published import import_published

    folder, rows = import_published(files, name, out)
    say(f"{rows:,} runs; next: untwine study report {folder.path}")
    show_path(folder.path)


@app.command()
def best(
    study: Name,
    by: Annotated[str, typer.Option(help="A score; by default UDR, which needs no factors.")] = "",
    out: Studies = Path("studies"),
) -> None:
    """Recommend models, by a score or, without labels, by UDR.

    \b
    Examples:
      untwine study best constrained-vaes-laptop
      untwine study best constrained-vaes-laptop --by mig
    """
    from untwine.study.selection import best_runs

    header, rows, sentence = best_runs(open_study(study, out), by)
    show_table(header, rows)
    say(sentence)


def open_study(study: str, out: Path) -> "StudyFolder":
    """The folder of a study, up to date with its remote storage."""
    from untwine.study.folder import open_folder

    folder = open_folder(study, out)
    folder.refresh()
    return folder


def count_states(jobs: "dict[str, list[Job]]") -> str:
    return ", ".join(f"{len(some)} {state}" for state, some in jobs.items() if some)
