"""The file of a search: Optuna's own database (SQLite), checked when it is opened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from untwine.data.incoming.bounds import describe_error, refuse_unreadable
from untwine.data.incoming.databases import check_database, open_database
from untwine.errors import DataError, ParameterError, RunError
from untwine.tools.extras import needs_extra

if TYPE_CHECKING:
    from optuna import Study

MAX_ROWS = 100_000  # of all tables of a file, which are read whole
NAME = "untwine"  # of the study in the file
STARTUP_TRIALS = 5  # that are never pruned
STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "stopped"}


@dataclass(frozen=True)
class Tried:
    """One trial: its values, its score, and what became of it."""

    number: int  # from 1
    values: dict[str, str]
    state: str
    score: float | None = None  # of a pruned trial the last one
    runs: tuple[str, ...] = ()  # names of directories
    reason: str = ""  # why it failed


def list_trials(study: Study) -> list[Tried]:
    """All trials in the file."""
    rows: list[Tried] = []
    for trial in study.get_trials(deepcopy=False):
        values = {name: _text(value) for name, value in trial.params.items()}
        score = trial.value
        if score is None and trial.intermediate_values:
            score = trial.intermediate_values[max(trial.intermediate_values)]
        runs, reason = trial.user_attrs.get("runs", ()), str(trial.user_attrs.get("reason", ""))
        state = STATES.get(trial.state.name, "stopped")
        rows.append(Tried(trial.number + 1, values, state, score, tuple(runs), reason))
    return rows


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


@contextlib.contextmanager
def locked_file(file: Path) -> Iterator[None]:
    """Let one process at a time work on a file; the system releases it when the process dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file.with_name(f".{file.name}.lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(
            f"another process is working on {file}; wait for it, or use another --file"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def database(
    file: Path, question: Mapping[str, Any], names: set[str], *, maximise: bool
) -> Iterator[Study]:
    """The search in a file; one that asks for something else is refused.

    Args:
        file: Optuna's database, which someone else may have sent.
        question: what is asked for.
        names: of the parameters that are searched.
        maximise: whether high scores are good.
    """
    with needs_extra("optuna", "untwine tune"):
        import optuna
        import sqlalchemy.exc
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    damaged = f"{file} is not a search, or is damaged"
    storage = None
    try:
        with refuse_unreadable(damaged):
            if file.exists():
                check_database(file, optuna_tables(), MAX_ROWS, damaged)
            storage = optuna.storages.RDBStorage(
                "sqlite:///search.db",  # an address gives ? and % in the name of a file a meaning
                engine_kwargs={"creator": lambda: open_database(file)},
            )
            pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS)
            study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction="maximize" if maximise else "minimize",
                pruner=pruner,
                load_if_exists=True,
            )
            _require_same(study, file, question)
            _check_trials(list_trials(study), names)
        yield study
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise DataError(f"{damaged}: {describe_error(error)}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)
        if storage is not None:
            storage.engine.dispose()


def optuna_tables() -> set[str]:
    """The names of the tables that Optuna makes."""
    from optuna.storages._rdb.models import BaseModel

    return {*BaseModel.metadata.tables, "alembic_version"}


def _check_trials(trials: Iterable[Tried], names: set[str]) -> None:
    """Refuse trials that no search wrote: without their values, or with runs elsewhere."""
    for tried in trials:
        plain = all(str(run) == Path(str(run)).name not in ("", "..") for run in tried.runs)
        complete = names <= set(tried.values) and bool(tried.runs)
        if not plain or (tried.state == "finished" and not complete):
            raise ValueError(f"trial {tried.number} does not say which runs it made")


def _require_same(study: Study, file: Path, question: Mapping[str, Any]) -> None:
    """Write down what is asked for, or refuse a file that holds the answer to something else."""
    stored = study.user_attrs.get("question")
    if stored is None:
        study.set_user_attr("question", dict(question))
    elif stored != question:
        other = [name for name in question if stored.get(name) != question[name]]
        raise ParameterError(
            f"{file} holds another search (different: {', '.join(other)}); repeat its "
            "command to resume it, or use another --file"
        )
