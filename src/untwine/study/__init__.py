"""Many runs: read a study file, run it, read its results.

>>> import untwine
>>> study = untwine.study.read("constrained-vaes", scale="smoke")
>>> study.name, len(study.runs)
('constrained-vaes-smoke', 6)

`untwine.study.run(study)` runs or resumes it; `results`, `report` and `best` take the study's
folder. Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

NAMES = {
    "Outcome": "untwine.study.local:Outcome",
    "Study": "untwine.study.file:Study",
    "StudyFolder": "untwine.study.folder:StudyFolder",
    "best": "untwine.study.selection:best",
    "open": "untwine.study.folder:open_folder",
    "read": "untwine.study.file:read_study",
    "report": "untwine.report.study:write_study_report",
    "results": "untwine.study.table:results_table",
    "run": "untwine.study.running:run",
}
__all__ = [*NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"untwine.study has no {name!r}; it has {', '.join(NAMES)}")
    module, _, attribute = NAMES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(NAMES)
