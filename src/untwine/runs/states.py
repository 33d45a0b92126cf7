"""Training states on disk: the two newest, each with its checksum."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from untwine.errors import DamagedFile, RunError
from untwine.tools.files import read_bytes, sha256, write_bytes
from untwine.tools.sealed import check_shape, decode_json
from untwine.tools.weights import contiguous_copies, unpack_tensors
from untwine.train import PackedState

STATE_NAME = re.compile(r"\d{9,13}-[0-9a-f]{16}\.safetensors")
MAX_STATE_BYTES = 1 << 36
FACTS = {
    "step": int,
    "pending_steps?": int,
    "history?": [{str: float}],
    "seconds?": float,
    "run?": str,
    str: object,
}
"""The shape of what a state holds besides tensors; `run` is the hash of its run."""


def save_state(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: object) -> Path:
    """Write a training state whose name holds its checksum; the two newest are kept."""
    from safetensors.torch import save

    folder.mkdir(exist_ok=True)
    content = save(
        contiguous_copies(tensors), metadata={"facts": json.dumps(facts, allow_nan=False)}
    )
    path = folder / f"{step:09d}-{sha256(content)[:16]}.safetensors"
    write_bytes(path, content)
    for old in list_states(folder)[2:]:
        old.unlink()
    return path


def list_states(folder: Path) -> list[Path]:
    """The training states in a folder, newest first."""
    states = [path for path in folder.glob("*.safetensors") if STATE_NAME.fullmatch(path.name)]
    return sorted(states, key=state_step, reverse=True)


def state_step(state: Path) -> int:
    return int(state.name.partition("-")[0])


def latest_state(
    folder: Path, warn: Callable[[str], None], *, run: str = "", max_bytes: int = MAX_STATE_BYTES
) -> PackedState | None:
    """The newest whole training state of the run with this hash; others are named and passed over.

    Args:
        folder: of the states.
        warn: called with a sentence for each state that is passed over.
        run: the hash of the run, empty for any; states of version 0.1 do not say whose they are.
        max_bytes: more than a state of this run can have.
    """
    if folder.is_symlink():
        raise RunError(f"{folder} is a link; remove it")
    for path in list_states(folder):
        try:
            return read_state(path, run, max_bytes)
        except DamagedFile as error:
            warn(f"{error}; going back to the state before it")
    return None


def read_state(path: Path, run: str = "", max_bytes: int = MAX_STATE_BYTES) -> PackedState:
    """A training state, if it is whole and of the run with this hash; empty for any run."""
    content = read_bytes(path, max_bytes, error=DamagedFile)
    if sha256(content)[:16] != path.stem.partition("-")[2]:
        raise DamagedFile(f"{path} is damaged (its checksum differs)")
    try:
        tensors, metadata = unpack_tensors(content)
        facts = decode_json(metadata.get("facts", "").encode())
        check_shape(facts, FACTS)
    except DamagedFile as error:
        raise DamagedFile(f"{path} is damaged: {error}") from None
    if facts.pop("run", run) != run and run:
        raise DamagedFile(f"{path} is a state of another run")
    return tensors, facts
