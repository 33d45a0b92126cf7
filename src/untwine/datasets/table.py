"""Your own table: a .csv or .parquet file."""

from __future__ import annotations

from dataclasses import replace

from untwine.data.cache import check_digest, digest_of_content
from untwine.data.dataset import Dataset
from untwine.data.files import existing_path
from untwine.data.tables import read_table, table_dataset
from untwine.errors import DataError
from untwine.registry import dataset


@dataset(title="A .csv or .parquet file", paper="your own data")
def table(
    *,
    path: str = "data.csv",
    factors: str = "",
    row_names: str = "",
    standardise: bool = True,
    bounded: bool = False,
    digest: str = "",
) -> Dataset:
    """Rows of numbers under named columns, from a .csv, .tsv or .parquet file; your own data.

    A first column without a name holds the names of the rows. Columns are standardised to mean 0
    and deviation 1, and what is shown of them is in their own units again.

    Args:
        path: the file.
        factors: columns that are factors, such as classes, with commas between.
        row_names: the column that names the rows.
        standardise: give every column mean 0 and deviation 1.
        bounded: all numbers lie in [0, 1] and stay as they are; likelihoods for such data fit.
        digest: of the file, filled in by a run.
    """
    file = existing_path(path, "file")
    content = check_digest(path, digest, digest_of_content(file))
    names = [name.strip() for name in factors.split(",") if name.strip()]
    try:
        data = table_dataset(
            read_table(file, names, row_names), standardise=standardise, bounded=bounded
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return replace(data, digest=content)
