"""The directory of a study: its runs and their states."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine.errors import DataError, RunError
from untwine.plugins import Plugin
from untwine.registry import metrics, plugins_of, require_plugins
from untwine.runs.directory import STATES, run_state
from untwine.spec import Run
from untwine.study.file import Study
from untwine.study.job import Job, is_complete
from untwine.study.remote import is_url, pull
from untwine.tools.files import read_json, write_json
from untwine.tools.source import source_commit


@dataclass(frozen=True)
class StudyFolder:
    """A study and where its runs are."""

    path: Path
    study: Study
    imported: bool = False
    storage: str = ""  # where runs are kept, if elsewhere: a directory or an fsspec URL

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
        if self.remote:
            pull(self.storage, self.jobs())

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
) -> StudyFolder:
    """Make the directory of a study; an existing one takes the runs that the study has now.

    Args:
        study: what is planned.
        out: the directory that holds the studies.
        storage: where runs are kept, a directory or an fsspec URL; by default where they were
            before, or else in the study's own directory.
        fingerprints: of what must not change once the study has begun, by name. The first are
            kept, with the commit of the code.
    """
    path = Path(out) / study.name
    if study.runs and (path / "imported.csv").exists():
        raise DataError(
            f"{path} holds results that were imported; give the study another name, or --out"
        )
    path.mkdir(parents=True, exist_ok=True)
    if storage and not is_url(storage):
        storage = str(Path(storage).expanduser().resolve())
    before = _read_facts(path)
    storage = storage or str(before.get("place", ""))
    started = before.get("started") or {"commit": source_commit()}
    if fingerprints is not None:
        started = {"fingerprints": dict(fingerprints), **started}
    write_json(
        path / "study.json",
        {
            "study": study.name,
            "about": study.about,
            "metrics": study.metrics,
            "examples": study.examples,
            "place": storage,
            "started": started,
            "runs": [run.to_json() for run in study.runs],
            **_plugins_of_metrics(study),
        },
    )
    return StudyFolder(path, study, storage=storage)


def _plugins_of_metrics(study: Study) -> dict[str, Any]:
    """The entry `plugins` of study.json; runs name those of their own pieces."""
    made_with = plugins_of(metrics[metrics.read(name).name] for name in study.metrics)
    return {"plugins": [plugin.to_json() for plugin in made_with]} if made_with else {}


def _read_facts(path: Path) -> dict[str, Any]:
    """What an existing study noted; a damaged one is planned anew."""
    try:
        return read_json(path / "study.json")
    except RunError:
        return {}


def open_folder(name: str | Path, out: str | Path = "studies") -> StudyFolder:
    """The study in this directory, or the one of this name below `out`."""
    for path in (Path(name), Path(out) / str(name)):
        if (path / "study.json").is_file():
            return _read_folder(path)
    names = sorted(path.parent.name for path in Path(out).glob("*/study.json"))
    listing = f"there are: {', '.join(names)}" if names else "there are none yet"
    raise DataError(f"there is no study at {name} or in {out}; {listing}")


def as_folder(study: StudyFolder | str | Path) -> StudyFolder:
    """The folder of a study, opened if it is named."""
    return study if isinstance(study, StudyFolder) else open_folder(study)


def _read_folder(path: Path) -> StudyFolder:
    facts = read_json(path / "study.json")
    try:
        require_plugins([Plugin(**plugin) for plugin in facts.get("plugins", ())])
        runs = tuple(Run.from_json(run) for run in facts["runs"])
        study = Study(
            facts["study"], runs, tuple(facts["metrics"]), facts["examples"], facts["about"]
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / 'study.json'} is damaged; plan the study again") from error
    imported = (path / "imported.csv").exists()
    return StudyFolder(path, study, imported, str(facts.get("place", "")))


def job_state(job: Job) -> str:
    """The state of a run of a study; one that is trained and not scored has failed or waits."""
    if is_complete(job):
        return "finished"
    state = run_state(job.path)
    if state != "finished":
        return state
    return "failed" if (job.path / "failed.json").exists() else "waiting"


def failure_reason(job: Job) -> str:
    """Why a run failed: the last line of its reason."""
    try:
        reason = read_json(job.path / "failed.json").get("reason")
    except RunError as error:
        return str(error)
    return str(reason).strip().rpartition("\n")[2]


def runs_by_state(folder: StudyFolder) -> dict[str, list[Job]]:
    """The runs of a study by their state."""
    by_state: dict[str, list[Job]] = {state: [] for state in STATES}
    jobs = folder.jobs()
    with ThreadPoolExecutor(8) as pool:
        for job, state in zip(jobs, pool.map(job_state, jobs), strict=True):
            by_state[state].append(job)
    return by_state
