"""The weights of a module as bytes in the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from untwine.errors import RunError


def contiguous_copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that can be written: contiguous, and none sharing its memory with another."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }


def pack_weights(module: nn.Module) -> bytes:
    """The weights and buffers of a module as the content of a file."""
    return save_tensors(contiguous_copies(module.state_dict()))


def load_weights(module: nn.Module, content: bytes, origin: object) -> None:
    """Set the weights of a module from what `pack_weights` returned.

    `origin` names the file in the error for weights that belong to another module.
    """
    try:
        tensors = load_tensors(content)
    except SafetensorError as error:
        raise RunError(
            f"{origin} does not hold weights in the safetensors format: {error}"
        ) from None
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    actual = {name: tuple(value.shape) for name, value in tensors.items()}
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise RunError(
                f"{origin} does not fit its specification: {name} is "
                f"{_shape_text(actual.get(name))} there and {_shape_text(expected.get(name))} in "
                "the model"
            )
    module.load_state_dict(tensors)


def weight_shapes(content: bytes) -> dict[str, tuple[int, ...]]:
    """The shapes of weights by name, in the order of the file's header."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return {name: tuple(v["shape"]) for name, v in header.items() if name != "__metadata__"}


def _shape_text(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "x".join(map(str, shape)) or "a number"
