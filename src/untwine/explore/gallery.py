"""The runs and studies that the explorer serves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from untwine.data.dataset import Dataset
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.explore.answers import Curves, Overview, RunLine, StudySection, StudyTable
from untwine.explore.curves import run_curves, run_objective
from untwine.explore.lines import newest_first, run_labels, run_line, run_phase, unreadable_line
from untwine.explore.memo import Memo
from untwine.explore.model import TORCH_LOCK
from untwine.explore.tables import all_runs, section_answer, sections_of, study_table, table_of
from untwine.explore.view import RunView
from untwine.runs.directory import list_runs, open_run, parse_spec, read_record, score_values
from untwine.runs.names import run_name
from untwine.spec import Run
from untwine.study.folder import StudyFolder, open_folder
from untwine.study.statistics import Table
from untwine.tools.figures import figure_svg
from untwine.tools.files import expand_user
from untwine.tools.pages import Section

MAX_OPEN_VIEWS = 6
N_NAMES_IN_ERROR = 3
FIND_INTERVAL = 1.0  # seconds between two searches for new runs
FindRuns = Callable[[], Iterable[Path]]


class Gallery:
    """Runs by name, and the study that they belong to, if any.

    Reads only these runs, and writes nothing.
    """

    def __init__(
        self,
        runs: Iterable[Path],
        folder: StudyFolder | None = None,
        *,
        find_runs: FindRuns | None = None,
        opening: str = "",
        data: str | Dataset = "",
        trust: bool = False,
    ) -> None:
        """
        Args:
            runs: directories of runs.
            folder: the study that they belong to.
            find_runs: finds the runs again, with those that have begun in the meantime.
            opening: name of the run that the page opens on; by default the newest finished one.
            data: where the data of the runs is, as for `open_run`.
            trust: whether to open what the runs name, as for `open_run`.
        """
        self.paths = _name_runs(runs)
        self._find_runs, self._last_search = find_runs, time.monotonic()
        self._data, self._trust = data, trust
        self._opening = opening
        self.study_folder = folder
        self._views = Memo(MAX_OPEN_VIEWS)
        self._memo = Memo(_memo_size(self.paths))

    @classmethod
    def find(
        cls,
        arguments: Sequence[str | Path],
        out: str | Path = "runs",
        *,
        opening: str = "",
        data: str = "",
        trust: bool = False,
    ) -> Gallery:
        """The runs and the study named by the arguments of a command.

        Args:
            arguments: run directories, parts of the names of runs in `out`, directories of runs,
                and study directories; without any, all runs in `out`.
            out: the directory of runs.
            opening: name of the run that the page opens on; by default the newest finished one.
            data: where the data of the runs is, as for `open_run`.
            trust: whether to open what the runs name, as for `open_run`.
        """
        if not arguments and not list_runs(out):
            raise RunError(
                f"there are no runs in {out}; train one with untwine train, or name others"
            )
        finders, folders = list[FindRuns](), list[StudyFolder]()
        for argument in arguments:
            find_runs, folder = _resolve_argument(argument, Path(out))
            finders.append(find_runs)
            folders += [folder] if folder else []

        def find_all() -> list[Path]:
            if not arguments:
                return list_runs(out)
            return [path for find_runs in finders for path in find_runs()]

        study = folders[0] if len(folders) == len(arguments) == 1 else None
        return cls(find_all(), study, find_runs=find_all, opening=opening, data=data, trust=trust)

    def find_new_runs(self) -> None:
        """Add runs that have begun since, and forget those whose directories are gone."""
        if self._find_runs is None or time.monotonic() - self._last_search < FIND_INTERVAL:
            return
        self._last_search = time.monotonic()
        with suppress(UntwineError, OSError):
            here = {name: path for name, path in self.paths.items() if path.is_dir()}
            self.paths = _name_runs(self._find_runs(), here)
            self._memo.max_size = _memo_size(self.paths)

    def lines(self) -> list[RunLine]:
        """All runs, the newest first."""
        self.find_new_runs()
        paths = self.paths
        lines = [self._line(name, path) for name, path in paths.items()]
        named = {
            line.name: (spec := self._spec(path), _as_unicode(run_name(path, spec)))
            for line, path in zip(lines, paths.values(), strict=True)
            if line.phase != "unreadable"
        }
        labels = run_labels(named)
        return newest_first(
            [line.model_copy(update={"label": labels.get(line.name, line.name)}) for line in lines]
        )

    def overview(self) -> Overview:
        """What the page opens with: the study, or a finished run, or the curves of one."""
        lines = self.lines()
        finished = [line for line in lines if line.phase == "finished"]
        finished.sort(key=lambda line: line.name != self._opening)  # the newest first otherwise
        folder = self.study_folder
        jobs = folder.jobs() if folder and not folder.imported else []
        return Overview(
            title=self._title(),
            view="study" if folder else "latents" if finished else "curves",
            run=next((line.name for line in [*finished, *lines]), ""),
            waiting=sum(not os.path.lexists(job.path / "run.json") for job in jobs),
        )

    def view(self, name: str) -> RunView:
        """A finished run, opened on first use."""
        self._path(name)
        return self._views(name, lambda: self._open_view(name))

    def curves(self, name: str) -> Curves:
        """The learning curves of a run, finished or not."""
        path = self._path(name)
        record = self._record(path)

        def open_objective() -> Any:
            return self.view(name).trained.model.objective

        key = "objective", path, *_times(path, "run.json", "done.json")
        objective = self._memo(key, lambda: run_objective(path, record, open_objective))
        line = next((line for line in self.lines() if line.name == name), None)
        return run_curves(path, line or self._line(name, path), record, objective)

    def study(self) -> StudyTable:
        """The named study, or all runs with their scores."""
        self.find_new_runs()
        table, folder = self._results(), self.study_folder
        if table is None or folder is None:
            return all_runs(self._title(), self.lines())
        names = {path.name: name for name, path in self.paths.items()}
        return study_table(folder, table, names)

    def sections(self) -> list[StudySection]:
        """The sections of the study's report, which take seconds to draw."""
        return [section_answer(section) for section in self._sections()]

    def figure(self, name: str) -> bytes:
        """A figure of the study's report as SVG."""
        figures = {one.name: one.figure for one in self._sections() if one.figure is not None}
        figure = figures.get(name)
        if figure is None:
            names = f"there are {', '.join(figures)}" if figures else "there are none here"
            raise ParameterError(f"there is no figure {name!r}; {names}")
        return self._memo(("figure", figure), lambda: figure_svg(figure))

    def _title(self) -> str:
        return self.study_folder.study.name if self.study_folder else "All runs"

    def _path(self, name: str) -> Path:
        """The directory of a run."""
        if name not in self.paths:
            self.find_new_runs()
        if name not in self.paths:
            names = ", ".join(list(self.paths)[:N_NAMES_IN_ERROR]) or "none"
            more = ", ..." if len(self.paths) > N_NAMES_IN_ERROR else ""
            raise ParameterError(f"there is no run {name!r} here; there are {names}{more}")
        return self.paths[name]

    def _results(self) -> Table | None:
        """The results of the study, computed again when the scores of its runs change."""
        folder = self.study_folder
        if folder is None:
            return None
        return self._memo(("results", self._stamp()), lambda: table_of(folder))

    def _sections(self) -> list[Section]:
        table = self._results()
        if table is None:
            return []
        return self._memo(("drawn", self._stamp()), lambda: sections_of(table))

    def _stamp(self) -> tuple[int, ...]:
        """A value that changes when a run is scored."""
        return tuple(_modified_at(path / "scores.json") for path in self.paths.values())

    def _open_view(self, name: str) -> RunView:
        with TORCH_LOCK:  # building a model uses the random numbers of the whole process
            trained = open_run(self.paths[name], data=self._data, trust=self._trust)
        view = RunView(trained, name=name)
        view.require_usable()
        return view

    def _record(self, path: Path) -> Mapping[str, Any]:
        """The record of a run."""
        key = "record", path, *_times(path, "run.json", "done.json")
        return self._memo(key, lambda: read_record(path))

    def _spec(self, path: Path) -> Run:
        """The specification of a run."""
        key = "spec", path, *_times(path, "run.json", "done.json")
        return self._memo(key, lambda: parse_spec(self._record(path)))

    def _line(self, name: str, path: Path) -> RunLine:
        def make_line() -> RunLine:
            return run_line(name, path, self._record(path), self._spec(path), self._scores(path))

        files = ("run.json", "done.json", "scores.json", "model.safetensors")
        try:
            if run_phase(path) not in ("finished", "elsewhere"):
                return make_line()
            return self._memo(("line", name, path, *_times(path, *files)), make_line)
        except (UntwineError, OSError) as error:
            return unreadable_line(name, _without_path(error, path))

    def _scores(self, path: Path) -> dict[str, float] | str:
        """The scores of a run, or why they cannot be read."""
        try:
            return score_values(path)
        except UntwineError as error:
            return _without_path(error, path)


def _memo_size(paths: Mapping[str, Path]) -> int:
    return 64 + 4 * len(paths)


def _resolve_argument(argument: str | Path, out: Path) -> tuple[FindRuns, StudyFolder | None]:
    """A function that finds the runs named by an argument, and the study if it names one."""
    path = expand_user(argument)
    if os.path.lexists(path / "run.json"):
        return lambda: [path], None
    if os.path.lexists(path / "study.json"):
        return _runs_of_study(open_folder(path))
    if path.is_dir() and (list_runs(path) or list_runs(path / "runs")):
        return lambda: list_runs(path) or list_runs(path / "runs"), None
    if any(_by_name(str(argument), list_runs(out))):
        return lambda: _by_name(str(argument), list_runs(out)), None
    if os.path.lexists(Path("studies") / str(argument) / "study.json"):
        return _runs_of_study(open_folder(str(argument)))
    raise RunError(
        f"there is no run {str(argument)!r} here or in {out}, and it is not a directory of runs or "
        "of a study; list runs with untwine runs"
    )


def _runs_of_study(folder: StudyFolder) -> tuple[FindRuns, StudyFolder]:
    paths = [job.path for job in folder.jobs()]
    return lambda: [path for path in paths if os.path.lexists(path / "run.json")], folder


def _by_name(name: str, runs: Sequence[Path]) -> Iterator[Path]:
    """The run of this name, or else runs whose names begin with it, or else contain it."""
    for fits in (name.__eq__, lambda full: full.startswith(name), lambda full: name in full):
        if matches := [path for path in runs if fits(path.name)]:
            yield from matches
            return


def _name_runs(runs: Iterable[Path], named: Mapping[str, Path] | None = None) -> dict[str, Path]:
    """Runs by the names of their directories; a second run of the same name is called NAME-2.

    Those that have names keep them.

    >>> list(_name_runs([Path("a/run"), Path("b/run"), Path("a/run")]))
    ['run', 'run-2']
    """
    paths = dict(named or {})
    known = set(paths.values())
    for path in dict.fromkeys(path.absolute() for path in runs):
        if path in known:
            continue
        name = first = _as_unicode(path.name)
        count = 1
        while name in paths:
            count += 1
            name = f"{first}-{count}"
        paths[name] = path
    return paths


def _without_path(error: Exception, path: Path) -> str:
    """What is wrong with a run, without the place of its directory."""
    return _as_unicode(str(error).replace(f"{path}/", "").replace(str(path), path.name))


def _as_unicode(name: str) -> str:
    r"""A name as answers can hold it, with the bytes that are no UTF-8 as \x...

    >>> print(_as_unicode("run \udcff"))
    run \xff
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _times(path: Path, *names: str) -> tuple[int, ...]:
    """When files of a run were last written."""
    return tuple(_modified_at(path / name) for name in names)


def _modified_at(path: Path) -> int:
    """When a file was last written, in nanoseconds; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
