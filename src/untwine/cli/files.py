"""The commands that look after the files of runs, studies and caches."""

from pathlib import Path
from typing import Annotated

import typer

from untwine.tools.terminal import say, show_table

Places = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Runs, studies, directories of them.")
]


def check(paths: Places) -> None:
    """Verify every file of runs, studies, models or a cache, and say what mends a damaged one.

    Reads everything; changes nothing. The exit code is 1 if a file is damaged.

    \b
    Examples:
      untwine check runs
      untwine check studies/constrained-vaes
      untwine check ~/.cache/untwine
    """
    from untwine.study.check import check_files

    findings = [finding for path in paths for finding in check_files(path)]
    show_table(["file", "state"], [[str(one.file), one.state] for one in findings])
    damaged = sum(one.is_damaged for one in findings)
    say(f"{len(findings):,} files checked, {damaged:,} damaged")
    if damaged:
        raise typer.Exit(1)


def trust(paths: Places) -> None:
    """Mark runs and studies as your own, so that the files and addresses they name are opened.

    Runs that you make are marked already. Mark what you made with an older version or on another
    machine; not what you received.

    \b
    Examples:
      untwine trust runs
      untwine trust studies/constrained-vaes
    """
    from untwine.study.trust import trust_directory

    rows = [row for path in paths for row in trust_directory(path)]
    show_table(["marked", "may open"], rows)
