"""The commands that use a trained model: encode, decode, sample, reconstruct, find outliers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untwine.cli.options import Quiet, Runs
from untwine.tools.terminal import say, show_path, show_table

if TYPE_CHECKING:
    from untwine.data.dataset import Dataset
    from untwine.vae import VAE

Model = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run, a part of its name, a model folder or hf://ORG/NAME."
    ),
]
Data = Annotated[
    str | None,
    typer.Argument(help="A folder, a file or a dataset; the run's own data by default."),
]
Out = Annotated[Path, typer.Option("--out", help="File to write.")]
RunsDirectory = Annotated[
    Path, typer.Option("--runs", envvar="UNTWINE_RUNS", help="Directory that holds the runs.")
]
Draws = Annotated[int, typer.Option(min=0, help="Samples for the log-likelihood; 0 leaves it out.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")]
LabelTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="NAME=LEVEL", help="Label of all examples, for a conditional model."
    ),
]
MAX_IMAGES = 10_000  # decoded at once


def with_labels(model: "VAE", labels: list[str] | None) -> "VAE":
    """The model for examples with these labels, each written as NAME=LEVEL."""
    from untwine.errors import ParameterError

    chosen: dict[str, str] = {}
    for text in labels or ():
        name, _, level = text.partition("=")
        chosen[name] = level
    if not all(chosen.values()) or len(chosen) < len(labels or ()):
        raise ParameterError("--label is NAME=LEVEL, each name once, for example --label digit=3")
    return model.given(chosen) if chosen else model


def encode(
    run: Model,
    data: Data = None,
    out: Out = Path("codes.csv"),
    draws: Draws = 16,
    seed: Seed = 0,
    label: LabelTexts = None,
    runs: RunsDirectory = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Write the code of every example, with its likelihood and error.

    One row per example, in the order of the data: the file name or number, the code (z0, z1, ...),
    the posterior's deviations (sd0, ...), KL and log-likelihood in nats, the mean squared error of
    the reconstruction, and the levels of factors. New pictures are resized as the model's own were.
    .csv, .tsv and .parquet hold all of it, with the names of levels. .npz holds arrays, with levels
    as numbers, for `untwine score`; .npy holds the codes alone.

    \b
    Examples:
      untwine encode beta-tcvae --out codes.parquet
      untwine encode beta-tcvae ./new-photos --out codes.csv
      untwine encode beta-tcvae --out codes.npz && untwine score codes.npz
    """
    from untwine.runs.finding import open_trained
    from untwine.scoring.codes import codes
    from untwine.scoring.outputs import check_ending, write_codes

    check_ending(out)
    trained = open_trained(run, runs, data)
    model = with_labels(trained.model, label)
    table = codes(model, trained.open_data(), draws=draws, seed=seed, quiet=quiet)
    write_codes(table, out)
    show_path(out)


def outliers(
    run: Model,
    data: Data = None,
    count: Annotated[int, typer.Option(min=1, help="Number of examples to list.")] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="Write all examples here.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Samples for the log-likelihood.")] = 16,
    seed: Seed = 0,
    label: LabelTexts = None,
    runs: RunsDirectory = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """List the examples that the model finds least likely.

    \b
    Examples:
      untwine outliers beta-tcvae
      untwine outliers beta-tcvae ./new-photos --count 20 --out by-likelihood.csv
    """
    from untwine.runs.finding import open_trained
    from untwine.scoring.codes import outliers as find_outliers
    from untwine.scoring.outputs import check_ending, write_codes

    if out is not None:
        check_ending(out)
    trained = open_trained(run, runs, data)
    model = with_labels(trained.model, label)
    table = find_outliers(model, trained.open_data(), draws=draws, seed=seed, quiet=quiet)
    columns = ["example", "log_likelihood", "kl", "error"]
    rows = table[columns].head(count).itertuples(index=False)
    show_table(columns, [[str(name), *(f"{value:.4g}" for value in rest)] for name, *rest in rows])
    if out is not None:
        write_codes(table, out)
        say(f"all {len(table):,} examples: {out}")


def decode(
    run: Model,
    codes: Annotated[Path, typer.Argument(help="(N, D) codes: .npy, .npz or .csv of numbers.")],
    out: Out = Path("decoded.npy"),
    label: LabelTexts = None,
    runs: RunsDirectory = Path("runs"),
) -> None:
    """Decode codes into images or vectors: .npy, .png (one picture), .csv, or a folder of PNGs.

    \b
    Example:
      untwine decode beta-tcvae codes.npz --out pictures
    """
    import numpy as np

    from untwine.errors import DataError
    from untwine.runs.finding import open_trained
    from untwine.scoring.outputs import write_examples
    from untwine.scoring.rows import read_rows

    model = with_labels(open_trained(run, runs).model, label)
    with np.errstate(over="ignore"):
        values = np.array(read_rows(codes).codes, np.float32)
    width = model.mapping.out_features
    if values.shape[1] != width:
        raise DataError(f"{codes} has {values.shape[1]} columns; codes of this model have {width}")
    if not np.isfinite(values).all():
        raise DataError(f"{codes} holds NaN or infinity; decode finite codes")
    if len(values) > MAX_IMAGES:
        raise DataError(f"{codes} has {len(values):,} rows; decode at most {MAX_IMAGES:,} at once")
    names = [f"{i:05d}" for i in range(len(values))]
    write_examples(model.decode(values), names, out, model.columns)
    show_path(out)


def sample(
    run: Model,
    count: Annotated[int, typer.Option(min=1, max=MAX_IMAGES, help="Number of samples.")] = 64,
    out: Out = Path("samples.png"),
    seed: Seed = 0,
    label: LabelTexts = None,
    runs: RunsDirectory = Path("runs"),
) -> None:
    """Draw samples from a model: .npy, .png (one picture), .csv, or a folder of PNGs.

    A conditional model takes the levels of its labels in turn, unless --label chooses them.

    \b
    Examples:
      untwine sample beta-tcvae --count 16 --out samples.png
      untwine sample conditional --label digit=3
    """
    from untwine.runs.finding import open_trained
    from untwine.scoring.outputs import write_examples

    model = with_labels(open_trained(run, runs).model, label)
    drawn = model.sample(count, seed=seed)
    write_examples(drawn.numpy(), [f"{i:05d}" for i in range(count)], out, model.columns)
    show_path(out)


def reconstruct(
    run: Model,
    data: Data = None,
    count: Annotated[
        int, typer.Option(min=1, max=MAX_IMAGES, help="Number of examples, from the first on.")
    ] = 64,
    out: Out = Path("reconstructions.png"),
    label: LabelTexts = None,
    runs: RunsDirectory = Path("runs"),
) -> None:
    """Encode and decode examples: .npy, .png (one picture), .csv, or a folder of PNGs.

    \b
    Example:
      untwine reconstruct beta-tcvae ./new-photos --out reconstructions
    """
    import numpy as np

    from untwine.data.conversion import CHUNK
    from untwine.runs.finding import open_trained
    from untwine.scoring.outputs import write_examples

    trained = open_trained(run, runs, data)
    examples, model = trained.open_data(), with_labels(trained.model, label)
    index = list(range(min(count, len(examples))))
    chunks = [index[start : start + CHUNK] for start in range(0, len(index), CHUNK)]
    images = [
        model.given_data(examples, chunk).reconstruct(examples.take_repeatably(chunk)).numpy()
        for chunk in chunks
    ]
    names = _example_names(examples, index)
    write_examples(np.concatenate(images), names, out, model.columns)
    show_path(out)


def _example_names(data: "Dataset", index: list[int]) -> list[str]:
    return [data.example_names[i] if data.example_names else f"{i:05d}" for i in index]


def export(
    run: Annotated[str, typer.Argument(help="A run, or a part of its name.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write the model to.")],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also write encoder.onnx and decoder.onnx.")
    ] = False,
    out: Runs = Path("runs"),
) -> None:
    """Write a run's model to a folder that untwine.load reads on any machine, without data.

    \b
    Examples:
      untwine export beta-tcvae ./model
      untwine export beta-tcvae ./model --onnx
    """
    from untwine.runs.finding import open_trained

    model = open_trained(run, out).model
    path = model.save(folder)
    if onnx:
        model.export_onnx(path)
    show_path(path)


def push(
    run: Annotated[str, typer.Argument(help="A run, or a part of its name.")],
    repository: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository on the Hub.")],
    revision: Annotated[str | None, typer.Option(help="Branch; by default the main one.")] = None,
    licence: Annotated[str, typer.Option(help="Of the weights: apache-2.0, cc-by-4.0, ...")] = "",
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
    out: Runs = Path("runs"),
) -> None:
    """Upload a run's model to the Hugging Face Hub, with a page about it.

    The page is made from the run: equation, data, scores next to their references, BibTeX, and how
    to load the model. Neither data nor paths are uploaded. Log in with `hf auth login` first, or
    set HF_TOKEN.

    \b
    Example:
      untwine evaluate beta-tcvae && untwine push beta-tcvae me/sprites --licence cc-by-4.0
    """
    from untwine.catalogue.publishing import push as push_run
    from untwine.runs.directory import read_scores
    from untwine.runs.finding import find_run

    path = find_run(run, out)
    address = push_run(path, repository, revision=revision, licence=licence, private=private)
    if not read_scores(path):
        say(f"the page has no scores; run `untwine evaluate {path}` and push again to add them")
    say(f'load it: untwine.load("{address}")')
    print(address)
