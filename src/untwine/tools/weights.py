"""The weights of a module as bytes in the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from untwine.errors import DamagedFile, RunError
from untwine.tools.files import open_regular, read_bytes, sha256
from untwine.tools.sealed import check_shape, decode_json

HEADER = {str: {"shape": [int], "dtype": str}}  # of a .safetensors file, without its metadata
MAX_HEADER_BYTES = 1 << 24
MAX_BYTES_PER_NAME = 4096  # of the header, for each tensor


def contiguous_copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that can be written: contiguous, and none sharing its memory with another."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }


def pack_weights(module: nn.Module) -> bytes:
    """The weights and buffers of a module as the content of a file."""
    return save_tensors(contiguous_copies(module.state_dict()))


def read_weights(file: Path, checksum: str, module: nn.Module, remedy: str) -> bytes:
    """The content of a file of weights for a module, if it has this checksum.

    Args:
        file: a .safetensors file.
        checksum: SHA-256 of its content.
        module: a file that is larger than its weights is refused before it is read.
        remedy: what to do about a damaged file, for the error.
    """
    state = module.state_dict().values()
    max_bytes = sum(value.nbytes for value in state) + MAX_BYTES_PER_NAME * (len(state) + 1)
    try:
        content = read_bytes(file, max_bytes, error=DamagedFile)
    except FileNotFoundError:
        raise DamagedFile(f"{file} is missing; {remedy}") from None
    if sha256(content) != checksum:
        raise DamagedFile(f"{file} is damaged (its checksum differs); {remedy}")
    return content


def unpack_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata in the content of a .safetensors file."""
    try:
        tensors = load_tensors(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise DamagedFile(f"it is not in the safetensors format ({error})") from None
    header = decode_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return tensors, header.get("__metadata__") or {}


def load_weights(module: nn.Module, content: bytes, origin: object) -> None:
    """Set the weights of a module from what `pack_weights` returned.

    `origin` names the file in the error for weights that belong to another module.
    """
    try:
        tensors, _ = unpack_tensors(content)
    except DamagedFile as error:
        raise DamagedFile(f"{origin} is damaged: {error}") from None
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    actual = {name: tuple(value.shape) for name, value in tensors.items()}
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise RunError(
                f"{origin} does not fit its specification: {name} is "
                f"{_shape_text(actual.get(name))} there and {_shape_text(expected.get(name))} in "
                "the model"
            )
    for name, value in module.state_dict().items():
        if tensors[name].dtype != value.dtype:
            raise RunError(f"{origin} holds {name} as {tensors[name].dtype}, not {value.dtype}")
    module.load_state_dict(tensors)


def weight_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of weights by name, in the order of the file's header, which alone is read."""
    try:
        with open_regular(file, error=DamagedFile) as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = decode_json(stream.read(size) if size <= MAX_HEADER_BYTES else b"")
        check_shape(header, {"__metadata__?": object, **HEADER})
    except FileNotFoundError:
        raise DamagedFile(f"{file} is missing") from None
    except DamagedFile as error:
        raise DamagedFile(f"{file} is damaged: {error}") from None
    return {name: tuple(v["shape"]) for name, v in header.items() if name != "__metadata__"}


def _shape_text(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "x".join(map(str, shape)) or "a number"
