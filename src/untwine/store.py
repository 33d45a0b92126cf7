"""Files that are either whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

Packed = tuple[dict[str, Tensor], dict[str, Any]]  # a training state as tensors and as JSON
STATE = re.compile(r"\d{9,}-[0-9a-f]{16}\.safetensors")


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write to a temporary file beside `path`, flush it to disk, then rename it into place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """Make a rename durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda stream: stream.write(content))


def write_json(path: Path, content: object) -> None:
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def save_state(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: object) -> Path:
    """Write a training state whose name holds its checksum; the two newest are kept."""
    from safetensors.torch import save

    folder.mkdir(exist_ok=True)
    content = save(plain(tensors), metadata={"facts": json.dumps(facts, allow_nan=False)})
    path = folder / f"{step:09d}-{sha256(content)[:16]}.safetensors"
    write_bytes(path, content)
    for old in states(folder)[2:]:
        old.unlink()
    return path


def states(folder: Path) -> list[Path]:
    """The training states in a folder, newest first."""
    found = [path for path in folder.glob("*.safetensors") if STATE.fullmatch(path.name)]
    return sorted(found, key=step_of, reverse=True)


def step_of(state: Path) -> int:
    return int(state.name.partition("-")[0])


def plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that can be written: contiguous, and none sharing its memory with another."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }


def latest_state(
    folder: Path, warn: Callable[[str], None], *, until: int | None = None
) -> Packed | None:
    """The newest training state that is whole, and of no later step than `until`.

    Damaged ones are named and passed over.
    """
    from safetensors import safe_open
    from safetensors.torch import load

    for path in states(folder):
        if until is not None and step_of(path) > until:
            continue
        content = path.read_bytes()
        if sha256(content)[:16] == path.stem.partition("-")[2]:
            with safe_open(path, framework="pt") as opened:
                return load(content), json.loads(opened.metadata()["facts"])
        warn(f"{path} is damaged (its checksum differs); going back to the state before it")
    return None
