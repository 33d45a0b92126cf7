"""Where this code comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path


def source_commit() -> str:
    """The commit of the work tree that this package is run from; empty outside of one.

    It ends with `+` if files of the package differ from that commit.
    """
    package = Path(__file__).parents[1]
    commit = _git(package, "rev-parse", "HEAD")
    if commit is None or _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""
    return f"{commit}+" if _git(package, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
