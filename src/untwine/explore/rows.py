"""Rows of a table: examples and decoded codes as numbers by column, in their own units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from untwine.errors import IncompatibleError
from untwine.explore.answers import ColumnDifference, ColumnSummary, RowValues
from untwine.explore.model import Index
from untwine.explore.sample import RunSample, require
from untwine.explore.spaces import mean_differences
from untwine.latents import central_range
from untwine.records import Columns

MAX_COLUMNS = 100  # shown of a table; those on which the model has most to say
MAX_NUMBERS = 500_000  # in an answer
N_RANGE_ROWS = 500  # decoded from the prior for the range of columns
Floats = NDArray[np.floating]


class RunRows(RunSample):
    """A run on a table of numbers; what is not a table has no rows."""

    @property
    def has_rows(self) -> bool:
        """Whether examples are rows of numbers, and no pictures."""
        return not self.has_pictures

    def require_rows(self) -> None:
        """Refuse data that is not a table."""
        if not self.has_rows:
            raise IncompatibleError("the examples of this data are pictures; ask for .png instead")

    def _all_columns(self) -> Columns:
        """Every column of the table; without names they are counted."""
        columns = self.trained.model.columns or (self.data.columns if self.has_examples else None)
        width = self.shape.numel()
        if columns is not None and len(columns.names) == width:
            return columns
        names = tuple(f"column {k + 1}" for k in range(width))
        return Columns(names, (0.0,) * width, (1.0,) * width)

    def shown_columns(self) -> Index:
        """(C,) the columns that are shown: all, or those that decoded rows differ most in."""
        return self.memo("shown columns", self._shown_columns)

    def _shown_columns(self) -> Index:
        width = self.shape.numel()
        if width <= MAX_COLUMNS:
            return np.arange(width)
        spread = self._prior_rows().std(0)
        return np.sort(np.argsort(-spread, kind="stable")[:MAX_COLUMNS])

    def _prior_rows(self) -> Floats:
        """(N, D) rows decoded from the prior, as the model sees them."""
        codes = self.shared_model.sample_codes(N_RANGE_ROWS, 0)
        parts = [part.reshape(len(part), -1) for part in self.shared_model.each_decoded(codes)]
        return np.concatenate(parts)

    def in_units(self, rows: Floats) -> NDArray[np.float64]:
        """(..., C) the shown columns of rows (..., D), in their own units."""
        flat = rows.reshape(-1, rows.shape[-1])
        values = self._all_columns().restore(flat)[:, self.shown_columns()]
        return values.reshape(*rows.shape[:-1], -1)

    def columns(self) -> list[ColumnSummary]:
        """The shown columns with the central range of the data, or else of samples."""
        if not self.has_rows:
            return []
        return self.memo("columns", self._columns)

    def _columns(self) -> list[ColumnSummary]:
        if self.has_examples:
            taken = [x.numpy() for x in self.shared_model.each_taken(self.index)]
            rows = np.concatenate(taken)
        else:
            rows = self._prior_rows()
        values = self.in_units(rows)
        low, high = central_range(values)
        names = self._all_columns().names
        return [
            ColumnSummary(name=names[k], low=_short(low[c]), high=_short(high[c]))
            for c, k in enumerate(self.shown_columns())
        ]

    def row_values(self, index: int) -> RowValues:
        """An example and its reconstruction."""
        self.require_rows()
        example = self.shared_model.take([self.check_index(index)]).numpy()
        made = self.shared_model.decode(self.code(index)[None])
        values, reconstruction = self.in_units(np.concatenate([example, made]))
        return RowValues(values=_numbers(values), reconstruction=_numbers(reconstruction))

    def decode_row(self, code: Sequence[float]) -> list[float]:
        """The decoded row of a code."""
        self.require_rows()
        return _numbers(self.in_units(self.shared_model.decode(self.check_code(code)[None]))[0])

    def decode_rows(self, codes: Floats) -> list[list[list[float]]]:
        """(R, S, D) codes as rows of numbers."""
        self.require_rows()
        columns = len(self.shown_columns())
        require(
            codes.shape[0] * codes.shape[1] * columns <= MAX_NUMBERS,
            "these are too many numbers for one answer; ask for fewer latents or steps",
        )
        decoded = self.shared_model.each_decoded(codes.reshape(-1, codes.shape[-1]))
        values = self.in_units(np.concatenate(list(decoded))).reshape(*codes.shape[:2], -1)
        return [[_numbers(row) for row in film] for film in values]

    def column_differences(self, every: Index, rows: Index) -> list[ColumnDifference]:
        """Columns whose mean over some examples differs from that of all, largest first."""
        values = self.in_units(
            np.concatenate([x.numpy() for x in self.shared_model.each_taken(every)])
        )
        names = [self._all_columns().names[k] for k in self.shown_columns()]
        return [
            ColumnDifference(
                name=names[c], mean=_short(mean), overall=_short(overall), deviations=deviations
            )
            for c, mean, overall, deviations in mean_differences(values[rows], values)
        ]


def _short(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")


def _numbers(values: Floats) -> list[float]:
    return [_short(value) for value in values.tolist()]
