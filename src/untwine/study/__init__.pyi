from untwine.report.study import write_study_report as report
from untwine.study.file import Study as Study
from untwine.study.file import read_study as read
from untwine.study.folder import StudyFolder as StudyFolder
from untwine.study.folder import open_folder as open
from untwine.study.local import Outcome as Outcome
from untwine.study.running import run as run
from untwine.study.selection import best as best
from untwine.study.table import results_table as results

__all__ = [
    "Outcome",
    "Study",
    "StudyFolder",
    "best",
    "open",
    "read",
    "report",
    "results",
    "run",
]
