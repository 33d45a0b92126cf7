"""SQLite databases of other programs, whose views and triggers could run anything for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from untwine.data.incoming.bounds import file_size, refuse_unreadable

if TYPE_CHECKING:
    import sqlite3


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to the database in this very file, which is created if it is missing."""
    import sqlite3

    return sqlite3.connect(path.absolute(), check_same_thread=False)


def check_database(path: Path, tables: Collection[str], max_rows: int, sentence: str) -> None:
    """Refuse a file that is no database of these plain tables, or has too many rows.

    Nothing is written. An empty file is a database without tables. `sentence` begins the error.
    """
    import sqlite3

    file_size(path)  # refuses pipes and folders
    with refuse_unreadable(sentence):
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute("select type, name, coalesce(sql, '') from sqlite_master")
            rows = 0
            for kind, name, sql in found.fetchall():
                plain = kind == "index" or (kind == "table" and "VIRTUAL" not in sql.upper())
                if not plain or (kind == "table" and not is_known(name, tables)):
                    raise ValueError(
                        f"it holds the {kind} {name[:60]!r}, which does not belong there"
                    )
                if kind == "table":
                    counted = f'select count(*) from "{name}"'  # noqa: S608 - a known name
                    rows += connection.execute(counted).fetchone()[0]
            if rows > max_rows:
                raise ValueError(f"it has {rows:,} rows where {max_rows:,} are allowed")


def is_known(name: str, tables: Collection[str]) -> bool:
    return name in tables or name == "sqlite_sequence"
