"""Codes and images as files for other programs; the ending of the file decides how."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from untwine.errors import DataError
from untwine.records import Columns
from untwine.tools.files import write_output
from untwine.tools.images import encode_png, image_grid, join_tiles, to_bytes
from untwine.tools.tables import disarm, write_csv, write_parquet

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.floating]
ENDINGS = (".csv", ".tsv", ".parquet", ".npy", ".npz")  # of a table of codes


def check_ending(path: Path) -> None:
    """Refuse a file that `write_codes` cannot write, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path} must end in {', '.join(ENDINGS)}")


def write_codes(table: DataFrame, path: Path) -> None:
    """Write a table of codes; the ending of the file decides how.

    .csv, .tsv and .parquet hold all columns, with the names of levels. .npy holds the codes alone,
    (N, D). .npz holds the arrays `codes`, `deviations`, `kl`, `log_likelihood`, `error`, `examples`
    and, as far as there are factors, `factors` (N, K) as numbers from 0, `factor_names`, and
    `unordered`, the positions of factors whose levels have no order.
    """
    writers: dict[str, Callable[[DataFrame, Path], None]] = {
        ".csv": write_csv,
        ".tsv": lambda table, path: write_output(
            path, disarm(table).to_csv(index=False, sep="\t").encode("utf-8", "backslashreplace")
        ),
        ".parquet": write_parquet,
        ".npy": lambda table, path: write_output(path, _npy(_block(table, "z"))),
        ".npz": lambda table, path: write_output(path, _npz(table)),
    }
    check_ending(path)
    writers[path.suffix.lower()](table, path)


def _block(table: DataFrame, prefix: str) -> NDArray[np.floating]:
    """(N, D) the columns `prefix0`, `prefix1`, ..."""
    names = [name for name in table.columns if str(name).removeprefix(prefix).isdigit()]
    return table[[name for name in names if str(name).startswith(prefix)]].to_numpy()


def _npy(values: NDArray[np.floating]) -> bytes:
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


def _npz(table: DataFrame) -> bytes:
    singles = [name for name in ("kl", "log_likelihood", "error") if name in table]
    arrays = {
        "codes": _block(table, "z"),
        **({"deviations": _block(table, "sd")} if "sd0" in table else {}),
        **{name: table[name].to_numpy() for name in singles},
        "examples": table["example"].to_numpy(dtype=str),
    }
    factors = table.iloc[:, list(table.columns).index("error") + 1 :]
    if len(factors.columns):
        arrays |= _factor_arrays(factors)
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _factor_arrays(factors: DataFrame) -> dict[str, NDArray[Any]]:
    """The levels of factors as numbers from 0, their names, and which of them have no order."""
    numbers, unordered = list[NDArray[np.int64]](), list[int]()
    for k, name in enumerate(factors):
        column = factors[name]
        if column.dtype.name == "category":
            unordered += [] if column.cat.ordered else [k]
            column = column.cat.codes
        numbers.append(column.to_numpy(np.int64))
    return {
        "factors": np.stack(numbers, 1),
        "factor_names": np.array(list(factors), dtype=str),
        "unordered": np.array(unordered, dtype=np.int64),
    }


def write_examples(
    examples: Floats, names: Sequence[str], path: Path, columns: Columns | None = None
) -> None:
    """Write (N, *shape) images or vectors.

    .npy holds them as they are, .png all images as one picture, and .csv a row for each vector, in
    the names and units of `columns` if it is a table. A path without an ending is a folder, which
    gets one PNG for each image, named after `names`.
    """
    ending, is_image = path.suffix.lower(), examples.ndim == 4
    if ending == ".npy":
        write_output(path, _npy(examples))
    elif ending == ".png" and is_image:
        across = math.ceil(math.sqrt(len(examples)))
        padded = np.zeros((-(-len(examples) // across) * across, *examples.shape[1:]))
        padded[: len(examples)] = examples
        grid = padded.reshape(-1, across, *examples.shape[1:])
        write_output(path, encode_png(image_grid(grid)))
    elif ending == ".csv" and not is_image:
        import pandas as pd

        table = pd.DataFrame(examples)
        if columns is not None:
            table = pd.DataFrame(columns.restore(examples), columns=pd.Index(columns.names))
        table.insert(0, "example", list(names), allow_duplicates=True)
        write_csv(table, path)
    elif not ending and is_image:
        path.mkdir(parents=True, exist_ok=True)
        for image, name in zip(to_bytes(examples), _file_names(names), strict=True):
            write_output(path / f"{name}.png", encode_png(join_tiles(image[None, None])))
    else:
        kinds = ".npy, .png or a folder" if is_image else ".npy or .csv"
        raise DataError(f"{path} cannot hold {'images' if is_image else 'vectors'}; use {kinds}")


def _file_names(names: Sequence[str]) -> list[str]:
    """Names of files in one folder, all different, for examples that may lie in several.

    >>> _file_names(["cat/1.png", "dog/1.png"]), _file_names(["1.png", "1.jpg"])
    (['cat-1', 'dog-1'], ['1.png', '1.jpg'])
    """
    flat = ["-".join(part for part in Path(name).parts if part not in "/..") for name in names]
    stems = [Path(name).stem for name in flat]
    return stems if len(set(stems)) == len(stems) else flat
