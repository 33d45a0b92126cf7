"""The runs and studies that the explorer serves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine.data.dataset import Dataset
from untwine.data.opening import FILE_PARAMETERS
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.explore.answers import RunLine, StudyFigure, StudyTable
from untwine.explore.memo import Memo
from untwine.explore.model import TORCH_LOCK
from untwine.explore.tables import all_runs, figures_of, study_table, table_of
from untwine.explore.view import RunView
from untwine.registry import Choice, datasets, models
from untwine.runs.describe import data_label
from untwine.runs.directory import (
    describe_progress,
    is_finished,
    list_runs,
    open_run,
    read_spec,
    score_values,
)
from untwine.spec import Run
from untwine.study.folder import StudyFolder, open_folder
from untwine.study.statistics import Table
from untwine.tools.figures import figure_svg
from untwine.tools.pages import Section

MAX_OPEN_VIEWS = 6
N_NAMES_IN_ERROR = 3


class Gallery:
    """Runs by name, and the study that they belong to, if any.

    Reads only these runs, and writes nothing.
    """

    def __init__(
        self,
        runs: Iterable[Path],
        folder: StudyFolder | None = None,
        *,
        data: str | Dataset = "",
        trust: bool = False,
    ) -> None:
        self.paths = _name_runs(runs)
        self._data, self._trust = data, trust
        self.study_folder = folder
        self._views = Memo(MAX_OPEN_VIEWS)
        self._memo = Memo(64 + 3 * len(self.paths))

    @classmethod
    def find(
        cls,
        arguments: Sequence[str | Path],
        out: str | Path = "runs",
        *,
        data: str = "",
        trust: bool = False,
    ) -> Gallery:
        """The runs and the study named by the arguments of a command.

        Args:
            arguments: run directories, parts of the names of runs in `out`, directories of runs,
                and study directories; without any, all runs in `out`.
            out: the directory of runs.
            data: where the data of the runs is, as for `open_run`.
            trust: whether to open what the runs name, as for `open_run`.
        """
        if not arguments:
            runs = list_runs(out)
            if not runs:
                raise RunError(
                    f"there are no runs in {out}; train one with untwine train, or name others"
                )
            return cls(runs, data=data, trust=trust)
        runs, folders = list[Path](), list[StudyFolder]()
        for argument in arguments:
            paths, folder = _resolve_argument(argument, Path(out))
            runs += paths
            folders += [folder] if folder else []
        study = folders[0] if len(folders) == len(arguments) == 1 else None
        return cls(runs, study, data=data, trust=trust)

    def lines(self) -> list[RunLine]:
        """All runs, in the order of the arguments."""
        return [self._line(name, path) for name, path in self.paths.items()]

    def view(self, name: str) -> RunView:
        """A finished run, opened on first use."""
        if name not in self.paths:
            names = ", ".join(list(self.paths)[:N_NAMES_IN_ERROR]) or "none"
            more = ", ..." if len(self.paths) > N_NAMES_IN_ERROR else ""
            raise ParameterError(f"there is no run {name!r} here; there are {names}{more}")
        return self._views(name, lambda: self._open_view(name))

    def study(self) -> StudyTable:
        """The named study, or all runs with their scores."""
        title = self.study_folder.study.name if self.study_folder else "All runs"
        table = self._results()
        if table is None:
            return all_runs(title, self.lines())
        names = {path.name: name for name, path in self.paths.items() if _has_weights(path)}
        return study_table(title, table, names)

    def figures(self) -> list[StudyFigure]:
        """The figures of the study's report, which take seconds to draw."""
        return [
            StudyFigure(name=one.name, title=one.title, note=one.sentence)
            for one in self._sections()
        ]

    def figure(self, name: str) -> bytes:
        """A figure of the study's report as SVG."""
        figures = {one.name: one.figure for one in self._sections()}
        figure = figures.get(name)
        if figure is None:
            names = f"there are {', '.join(figures)}" if figures else "there are none here"
            raise ParameterError(f"there is no figure {name!r}; {names}")
        return self._memo(("figure", figure), lambda: figure_svg(figure))

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
        return self._memo(("drawn", self._stamp()), lambda: figures_of(table))

    def _stamp(self) -> tuple[int, ...]:
        """A value that changes when a run is scored."""
        return tuple(_modified_at(path / "scores.json") for path in self.paths.values())

    def _open_view(self, name: str) -> RunView:
        with TORCH_LOCK:  # building a model uses the random numbers of the whole process
            trained = open_run(self.paths[name], data=self._data, trust=self._trust)
        view = RunView(trained, name=name)
        view.require_usable()
        return view

    def _spec(self, path: Path) -> Run:
        """The specification of a run."""
        times = _modified_at(path / "run.json"), _modified_at(path / "done.json")
        return self._memo(("spec", path, *times), lambda: read_spec(path))

    def _line(self, name: str, path: Path) -> RunLine:
        try:
            spec = self._spec(path)
            state, scores = _state(path, spec), self._scores(path)
        except (UntwineError, OSError) as error:
            state = f"unreadable: {_without_path(error, path)}"
            return RunLine(name=name, model="", data="", seed=0, steps=0, state=state, scores={})
        return RunLine(
            name=name,
            model=" + ".join(
                _piece_label(part.name, models.non_default(part)) for part in spec.model
            ),
            data=_piece_label(data_label(spec), datasets.non_default(spec.data)),
            seed=spec.seed,
            steps=spec.steps,
            state=state,
            problem="" if isinstance(scores, dict) else scores,
            scores=scores if isinstance(scores, dict) else {},
        )

    def _scores(self, path: Path) -> dict[str, float] | str:
        """The scores of a run, or why they cannot be read."""
        times = _modified_at(path / "scores.json"), _modified_at(path / "done.json")
        try:
            return self._memo(("scores", path, *times), lambda: score_values(path))
        except UntwineError as error:
            return _without_path(error, path)


def _resolve_argument(argument: str | Path, out: Path) -> tuple[list[Path], StudyFolder | None]:
    """The runs named by an argument, and the study if it names one."""
    path = Path(argument).expanduser()
    if os.path.lexists(path / "run.json"):
        return [path], None
    if os.path.lexists(path / "study.json"):
        return _runs_of_study(open_folder(path))
    if path.is_dir() and (runs := list_runs(path) or list_runs(path / "runs")):
        return runs, None
    if named := list(_by_name(str(argument), list_runs(out))):
        return named, None
    if os.path.lexists(Path("studies") / str(argument) / "study.json"):
        return _runs_of_study(open_folder(str(argument)))
    raise RunError(
        f"there is no run {str(argument)!r} here or in {out}, and it is not a directory of runs or "
        "of a study; list runs with untwine runs"
    )


def _runs_of_study(folder: StudyFolder) -> tuple[list[Path], StudyFolder]:
    paths = [job.path for job in folder.jobs()]
    return [path for path in paths if os.path.lexists(path / "run.json")], folder


def _by_name(name: str, runs: Sequence[Path]) -> Iterator[Path]:
    """The run of this name, or else runs whose names begin with it, or else contain it."""
    for fits in (name.__eq__, lambda full: full.startswith(name), lambda full: name in full):
        if matches := [path for path in runs if fits(path.name)]:
            yield from matches
            return


def _name_runs(runs: Iterable[Path]) -> dict[str, Path]:
    """Runs by the names of their directories; a second run of the same name is called NAME-2.

    >>> list(_name_runs([Path("a/run"), Path("b/run"), Path("a/run")]))
    ['run', 'run-2']
    """
    paths: dict[str, Path] = {}
    for path in dict.fromkeys(path.absolute() for path in runs):
        name, count = path.name, 1
        while name in paths:
            count += 1
            name = f"{path.name}-{count}"
        paths[name] = path
    return paths


def _piece_label(name: str, params: Mapping[str, Any]) -> str:
    """A model or dataset with its parameters, without the paths of files.

    >>> _piece_label("sprites", {"name": "sprites", "size": 32, "digest": "ab"})
    'sprites(size=32)'
    """
    hidden = ("name", "digest", *FILE_PARAMETERS)
    return str(Choice(name, {key: value for key, value in params.items() if key not in hidden}))


def _state(path: Path, spec: Run) -> str:
    """The state of a run, with its progress."""
    progress = describe_progress(path, spec)
    away = progress == "finished" and not _has_weights(path)
    return "finished, weights stored elsewhere" if away else progress


def _has_weights(path: Path) -> bool:
    """Whether a run is finished and its weights are here; those of remote runs are not."""
    return is_finished(path) and os.path.lexists(path / "model.safetensors")


def _without_path(error: Exception, path: Path) -> str:
    """What is wrong with a run, without the place of its directory."""
    return str(error).replace(f"{path}/", "").replace(str(path), path.name)


def _modified_at(path: Path) -> int:
    """When a file was last written, in nanoseconds; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
