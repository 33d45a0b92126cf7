"""Training states on disk: the two newest, each with its checksum."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from untwine.tools.files import sha256, write_bytes
from untwine.tools.weights import contiguous_copies
from untwine.train import PackedState

STATE_NAME = re.compile(r"\d{9,}-[0-9a-f]{16}\.safetensors")


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
    found = [path for path in folder.glob("*.safetensors") if STATE_NAME.fullmatch(path.name)]
    return sorted(found, key=state_step, reverse=True)


def state_step(state: Path) -> int:
    return int(state.name.partition("-")[0])


def latest_state(folder: Path, warn: Callable[[str], None]) -> PackedState | None:
    """The newest training state that is whole; damaged ones are named and passed over."""
    from safetensors import safe_open
    from safetensors.torch import load

    for path in list_states(folder):
        content = path.read_bytes()
        if sha256(content)[:16] == path.stem.partition("-")[2]:
            with safe_open(path, framework="pt") as opened:
                return load(content), json.loads(opened.metadata()["facts"])
        warn(f"{path} is damaged (its checksum differs); going back to the state before it")
    return None
