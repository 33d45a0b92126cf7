"""Which runs and studies may be looked at: those that were named when the explorer was started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine.errors import ParameterError, RunError, UntwineError
from untwine.explore.answers import RunLine, Study, StudyFigure
from untwine.explore.handle import TORCH
from untwine.explore.kept import Kept
from untwine.explore.look import Look
from untwine.explore.tables import all_runs, as_study, as_svg, figures_of, table_of
from untwine.guards import is_running
from untwine.pages import Section
from untwine.registry import Choice, datasets, models
from untwine.report import data_name
from untwine.results import Folder, open_folder
from untwine.runs import is_finished, kept_scores, list_runs, open_run, read_spec
from untwine.spec import FILES, Run
from untwine.statistics import Table
from untwine.store import states, step_of

OPEN = 6  # looks that are kept


class Place:
    """Runs by name, and the study that they belong to if one was named.

    Nothing else is ever read, and nothing is written.
    """

    def __init__(self, runs: Iterable[Path], folder: Folder | None = None) -> None:
        self.paths = _named(runs)
        self.folder = folder
        self._looks = Kept(OPEN)
        self._kept = Kept(64 + 3 * len(self.paths))

    @classmethod
    def found(cls, arguments: Sequence[str | Path], out: str | Path = "runs") -> Place:
        """What the words of a command name.

        Args:
            arguments: run directories, parts of names of those below `out`, directories that hold
                runs, and directories of studies; none is everything below `out`.
            out: the directory that holds runs.
        """
        if not arguments:
            runs = list_runs(out)
            if not runs:
                raise RunError(
                    f"there are no runs in {out}; untwine train makes one, or name where they are"
                )
            return cls(runs)
        runs, folders = list[Path](), list[Folder]()
        for argument in arguments:
            some, folder = _meant(argument, Path(out))
            runs += some
            folders += [folder] if folder else []
        return cls(runs, folders[0] if len(folders) == len(arguments) == 1 else None)

    def lines(self) -> list[RunLine]:
        """All runs, in the order in which they were named."""
        return [self._line(name, path) for name, path in self.paths.items()]

    def look(self, name: str) -> Look:
        """A finished run, opened on first use."""
        if name not in self.paths:
            known = ", ".join(list(self.paths)[:3]) or "none"
            more = ", ..." if len(self.paths) > 3 else ""
            raise ParameterError(f"there is no run {name!r} here; there are {known}{more}")
        return self._looks(name, lambda: self._opened(name))

    def study(self) -> Study:
        """The named study, or all runs with their scores."""
        title, table = self.folder.study.name if self.folder else "All runs", self._results()
        if table is None:
            return all_runs(title, self.lines())
        names = {path.name: name for name, path in self.paths.items() if _is_whole(path)}
        return as_study(title, table, names)

    def figures(self) -> list[StudyFigure]:
        """The figures of the study's report; drawing them takes seconds."""
        return [
            StudyFigure(name=one.name, title=one.title, note=one.sentence) for one in self._drawn()
        ]

    def figure(self, name: str) -> bytes:
        """A figure of the study's report as SVG."""
        figures = {one.name: one.figure for one in self._drawn()}
        figure = figures.get(name)
        if figure is None:
            there = f"there are {', '.join(figures)}" if figures else "there are none here"
            raise ParameterError(f"there is no figure {name!r}; {there}")
        return self._kept(("figure", figure), lambda: as_svg(figure))

    def _results(self) -> Table | None:
        """The results of the named study, anew when more of its runs are scored."""
        folder = self.folder
        if folder is None:
            return None
        return self._kept(("results", self._stamp()), lambda: table_of(folder))

    def _drawn(self) -> list[Section]:
        table = self._results()
        if table is None:
            return []
        return self._kept(("drawn", self._stamp()), lambda: figures_of(table))

    def _stamp(self) -> tuple[int, ...]:
        """What changes when a run is scored."""
        return tuple(_time(path / "scores.json") for path in self.paths.values())

    def _opened(self, name: str) -> Look:
        with TORCH:  # a model is built with random numbers, which are those of the whole process
            finished = open_run(self.paths[name])
        return Look(finished, name=name)

    def _spec(self, path: Path) -> Run | None:
        """What a run is, unless that cannot be read."""
        try:
            return self._kept(("spec", path, _time(path / "run.json")), lambda: read_spec(path))
        except UntwineError:
            return None

    def _line(self, name: str, path: Path) -> RunLine:
        spec = self._spec(path)
        if spec is None:
            return RunLine(
                name=name, model="", data="", seed=0, steps=0, state="unreadable", scores={}
            )
        return RunLine(
            name=name,
            model=" + ".join(_shown(part.name, models.shortened(part)) for part in spec.model),
            data=_shown(data_name(spec), datasets.shortened(spec.data)),
            seed=spec.seed,
            steps=spec.steps,
            state=_state(path, spec),
            scores=self._scores(path),
        )

    def _scores(self, path: Path) -> dict[str, float]:
        """What a run scored; nothing if that is damaged."""
        try:
            stamp = ("scores", path, _time(path / "scores.json"))
            return self._kept(stamp, lambda: kept_scores(path))
        except UntwineError:
            return {}


def _meant(argument: str | Path, out: Path) -> tuple[list[Path], Folder | None]:
    """The runs that a word names, and the study if it is one."""
    path = Path(argument).expanduser()
    if (path / "run.json").is_file():
        return [path], None
    if (path / "study.json").is_file():
        return _of_study(open_folder(path))
    if path.is_dir() and (below := list_runs(path) or list_runs(path / "runs")):
        return below, None
    if named := list(_by_name(str(argument), list_runs(out))):
        return named, None
    if (Path("studies") / str(argument) / "study.json").is_file():
        return _of_study(open_folder(str(argument)))
    raise RunError(
        f"there is no run {str(argument)!r} here or in {out}, and it is no directory of runs or of "
        "a study; untwine runs lists what there is"
    )


def _of_study(folder: Folder) -> tuple[list[Path], Folder]:
    paths = [job.path for job in folder.jobs()]
    return [path for path in paths if (path / "run.json").is_file()], folder


def _by_name(name: str, runs: Sequence[Path]) -> Iterator[Path]:
    """The run of this name, or those that begin with it, or those that have it in their names."""
    for fits in (name.__eq__, lambda full: full.startswith(name), lambda full: name in full):
        if matches := [path for path in runs if fits(path.name)]:
            yield from matches
            return


def _named(runs: Iterable[Path]) -> dict[str, Path]:
    """Runs by the names of their directories; the second of a name is called NAME-2.

    >>> list(_named([Path("a/run"), Path("b/run"), Path("a/run")]))
    ['run', 'run-2']
    """
    found: dict[str, Path] = {}
    for path in dict.fromkeys(path.resolve() for path in runs):
        name, count = path.name, 1
        while name in found:
            count += 1
            name = f"{path.name}-{count}"
        found[name] = path
    return found


def _shown(name: str, numbers: Mapping[str, Any]) -> str:
    """A piece with its numbers, without files, whose places concern nobody.

    >>> _shown("sprites", {"name": "sprites", "size": 32, "digest": "ab"})
    'sprites(size=32)'
    """
    hidden = ("name", "digest", *FILES)
    return str(Choice(name, {key: value for key, value in numbers.items() if key not in hidden}))


def _state(path: Path, spec: Run) -> str:
    """How far a run is."""
    if is_finished(path):
        return "finished" if _is_whole(path) else "finished, not kept here"
    saved = states(path / "states")
    step = step_of(saved[0]) if saved else 0
    return f"{'running' if is_running(path) else 'stopped'} at {100 * step // spec.steps} %"


def _is_whole(path: Path) -> bool:
    """Whether a run is finished with its weights here, which those of runs elsewhere are not."""
    return is_finished(path) and (path / "model.safetensors").exists()


def _time(path: Path) -> int:
    """When a file was written; 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
