"""The directory of a study: its runs and their states."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untwine.errors import DamagedFile, DataError, RunError
from untwine.plugins import Plugin
from untwine.registry import metrics, plugins_of, require_plugins
from untwine.runs.directory import PLUGIN, SPEC, STATES, read_record, run_state
from untwine.runs.progress import read_failure
from untwine.runs.training import resumable
from untwine.spec import Run
from untwine.study.file import Study
from untwine.study.job import Job, is_complete
from untwine.study.remote import is_url, pull
from untwine.tools.files import expand_user, read_bytes, resolve, sha256, write_bytes
from untwine.tools.notebook import card_html
from untwine.tools.sealed import read_json, write_json
from untwine.tools.source import source_commit
from untwine.tools.terminal import warn
from untwine.tools.trust import is_mine, mark_as_mine

STUDY = {
    "study": str,
    "about": str,
    "metrics": [str],
    "examples": int,
    "place?": str,
    "imported?": str,
    "plugins?": [PLUGIN],
    "started?": {"commit?": (str, None), "fingerprints?": {str: str}, str: object},
    "runs": [SPEC],
}
MAX_STUDY_BYTES = 1 << 28
MAX_SCRATCH_AGE = 3600.0  # seconds that a temporary file of a study is left alone


@dataclass(frozen=True)
class StudyFolder:
    """A study and where its runs are."""

    path: Path
    study: Study
    imported: bool = False
    storage: str = ""  # where runs are kept, if elsewhere: a directory or an fsspec URL
    trusted: bool = True  # whether the URL may be asked

    def __repr__(self) -> str:
        return f"<StudyFolder {self.path}: {self.study!r}>"

    def _repr_html_(self) -> str:
        """The study as a card for notebooks, with the state of its runs."""
        states = {state: len(jobs) for state, jobs in runs_by_state(self).items() if jobs}
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        rows = [("directory", str(self.path)), ("state", counts or "imported results")]
        return self.study._repr_html_() + card_html("", rows)

    @property
    def runs(self) -> Path:
        """The directory in which runs can be read."""
        return self.path / "runs" if not self.storage or self.remote else Path(self.storage)

    @property
    def remote(self) -> bool:
        """Whether runs are stored at a URL."""
        return is_url(self.storage)

    def refresh(self) -> None:
        """Copy what is new at the address of the runs, if they have one."""
        if self.remote and self.trusted:
            pull(self.storage, self.jobs())
        elif self.remote:
            warn(f"{_not_mine(self.path, self.storage)}; this is what was copied before")

    def jobs(self, **how: Any) -> list[Job]:
        """What is to be done, in order."""
        study = self.study
        return [
            Job(run, str(self.runs), study.metrics, study.examples, **how) for run in study.runs
        ]


def make_folder(
    study: Study,
    out: str | Path = "studies",
    *,
    storage: str = "",
    fingerprints: Mapping[str, str] | None = None,
    imported: bytes = b"",
) -> StudyFolder:
    """Make the directory of a study; an existing one takes the runs that the study has now.

    Args:
        study: what is planned.
        out: the directory that holds the studies.
        storage: where runs are kept, a directory or an fsspec URL; by default where they were
            before, or else in the study's own directory.
        fingerprints: of what must not change once the study has begun, by name. The first are
            kept, with the commit of the code.
        imported: results that were imported, as CSV.
    """
    path = Path(out) / study.name
    if study.runs and os.path.lexists(path / "imported.csv"):
        raise DataError(
            f"{path} holds results that were imported; give the study another name, or --out"
        )
    path.mkdir(parents=True, exist_ok=True)
    _remove_old_scratch(path)
    if storage and not is_url(storage):
        storage = str(resolve(expand_user(storage)))
    before = _read_former(path)
    storage = storage or _recorded_storage(path, before)
    runs = StudyFolder(path, study, storage=storage).runs
    study = replace(study, runs=tuple(resumable(run, runs) for run in study.runs))
    started = before.get("started") or {"commit": source_commit()}
    if fingerprints is not None:
        started = {"fingerprints": dict(fingerprints), **started}
    if imported:
        write_bytes(path / "imported.csv", imported)
    content = {
        "study": study.name,
        "about": study.about,
        "metrics": study.metrics,
        "examples": study.examples,
        "place": storage,
        "started": started,
        **({"imported": sha256(imported)} if imported else {}),
        "runs": [run.to_json() for run in study.runs],
        **_plugins_of_metrics(study),
    }
    write_json(path / "study.json", content, max_bytes=MAX_STUDY_BYTES)
    mark_as_mine(path / "study.json")
    return StudyFolder(path, study, bool(imported), storage)


def _remove_old_scratch(path: Path) -> None:
    """Remove temporary files of drivers that were killed; another one may be writing a new one."""
    for scratch in path.glob(".*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - scratch.stat().st_mtime > MAX_SCRATCH_AGE:
                scratch.unlink()


def _plugins_of_metrics(study: Study) -> dict[str, Any]:
    """The entry `plugins` of study.json; runs name those of their own pieces."""
    made_with = plugins_of(metrics[metrics.read(name).name] for name in study.metrics)
    return {"plugins": [plugin.to_json() for plugin in made_with]} if made_with else {}


def _read_former(path: Path) -> dict[str, Any]:
    """What study.json held before; a damaged one is planned anew."""
    try:
        return read_study_file(path)
    except RunError:
        return {}


def _recorded_storage(path: Path, before: Mapping[str, Any]) -> str:
    """Where an existing study keeps its runs."""
    place = str(before.get("place", ""))
    if place and not is_mine(path / "study.json"):
        raise RunError(f"{_not_mine(path, place)}, or name a place with --storage")
    return place


def read_study_file(path: Path) -> dict[str, Any]:
    """The content of study.json."""
    remedy = "plan the study again"
    return read_json(path / "study.json", STUDY, remedy=remedy, max_bytes=MAX_STUDY_BYTES)


def _not_mine(path: Path, place: str) -> str:
    return (
        f"{path} is not marked as yours, so {place}, where it says its runs are, is not opened; "
        f"write `untwine trust {path}` if the study is yours"
    )


def open_folder(name: str | Path, out: str | Path = "studies") -> StudyFolder:
    """The study in this directory, or the one of this name below `out`."""
    for path in (Path(name), Path(out) / str(name)):
        if os.path.lexists(path / "study.json"):
            return _read_folder(path)
    names = [path.name for path in list_folders(out)]
    listing = f"there are: {', '.join(names)}" if names else "there are none yet"
    raise DataError(f"there is no study at {name} or in {out}; {listing}")


def as_folder(study: StudyFolder | str | Path) -> StudyFolder:
    """The folder of a study, opened if it is named."""
    return study if isinstance(study, StudyFolder) else open_folder(study)


def list_folders(out: str | Path = "studies") -> list[Path]:
    """The directories of studies below `out`, by name."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(p for p in Path(out).iterdir() if os.path.lexists(p / "study.json"))
    return []


def _read_folder(path: Path) -> StudyFolder:
    content = read_study_file(path)
    require_plugins([Plugin.from_json(plugin) for plugin in content.get("plugins", ())])
    runs = tuple(Run.from_json(run) for run in content["runs"])
    study = Study(
        content["study"], runs, tuple(content["metrics"]), content["examples"], content["about"]
    )
    imported = os.path.lexists(path / "imported.csv")
    storage, mine = content.get("place", ""), is_mine(path / "study.json")
    folder = StudyFolder(path, study, imported, storage, trusted=mine)
    if not mine and ((storage and not folder.remote) or folder.runs.is_symlink()):
        raise RunError(_not_mine(path, str(folder.runs)))
    return folder


def read_imported(path: Path) -> bytes:
    """The results that were imported into a study, as CSV."""
    file, remedy = path / "imported.csv", "import the results again"
    try:
        content = read_bytes(file, MAX_STUDY_BYTES, error=DamagedFile)
    except FileNotFoundError:
        raise DamagedFile(f"{file} is missing; {remedy}") from None
    if read_study_file(path).get("imported", sha256(content)) != sha256(content):
        raise DamagedFile(f"{file} is damaged (its checksum differs); {remedy}")
    return content


def job_state(job: Job) -> str:
    """The state of a run of a study; one that is trained and not scored has failed or waits."""
    if is_complete(job):
        return "finished"
    state = run_state(job.path)
    if state != "finished":
        return state
    failed = os.path.lexists(job.path / "failed.json") or record_damage(job)
    return "failed" if failed else "waiting"


def record_damage(job: Job) -> str:
    """What is wrong with run.json or done.json, which running the study again does not mend."""
    try:
        read_record(job.path)
    except DamagedFile as error:
        return str(error)
    except RunError:  # not started
        pass
    return ""


def failure_reason(job: Job) -> str:
    """Why a run failed: its damaged file, or the last line of its reason."""
    return record_damage(job) or read_failure(job.path)


def runs_by_state(folder: StudyFolder) -> dict[str, list[Job]]:
    """The runs of a study by their state."""
    by_state: dict[str, list[Job]] = {state: [] for state in STATES}
    jobs = folder.jobs()
    with ThreadPoolExecutor(8) as pool:
        for job, state in zip(jobs, pool.map(job_state, jobs), strict=True):
            by_state[state].append(job)
    return by_state
