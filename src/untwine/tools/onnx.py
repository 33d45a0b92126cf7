"""Functions of tensors as ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from untwine.errors import RunError
from untwine.tools.extras import needs_extra

MAX_RELATIVE_ERROR = 1e-3
"""Largest deviation of ONNX Runtime from PyTorch, as a share of the largest number."""


class _Function(nn.Module):
    """A function of a tensor, with the module whose weights it uses."""

    def __init__(self, owner: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.owner, self.function = owner, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def export_function(
    path: Path,
    owner: nn.Module,
    function: Callable[[Tensor], Tensor],
    example: Tensor,
    *,
    input_name: str,
    output_name: str,
) -> Path:
    """Write a function of a batch (B, ...) as one ONNX file that takes batches of any size.

    Args:
        path: the file.
        owner: the module whose weights the function uses.
        function: of one tensor.
        example: at least two rows to trace it with.
        input_name: of the input in the file.
        output_name: of the output.
    """
    with needs_extra("onnx", "ONNX export"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of PyTorch about its own parts
        program = torch.onnx.export(
            _Function(owner, function).eval(),
            (example,),
            dynamo=True,
            input_names=[input_name],
            output_names=[output_name],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            verbose=False,
        )
    assert program is not None, "exporting with dynamo gives a program"
    program.save(str(path), external_data=False)
    return path


def relative_error(path: Path, x: Tensor, expected: Tensor) -> float:
    """The largest deviation of ONNX Runtime, as a share of the largest expected number."""
    with needs_extra("onnx", "checking an ONNX file"):
        import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entrance,) = session.get_inputs()
    if isinstance(entrance.shape[0], int):
        raise RunError(f"{path} takes batches of {entrance.shape[0]} alone; do not use it")
    result = np.asarray(session.run(None, {entrance.name: x.cpu().numpy()})[0])
    reference = expected.cpu().numpy()
    if result.shape != reference.shape:
        wrong, right = result.shape, reference.shape
        raise RunError(f"{path} gives shape {wrong} where the model gives {right}")
    return float(np.abs(result - reference).max() / max(np.abs(reference).max(), 1e-12))


def check_file(path: Path, x: Tensor, expected: Tensor) -> None:
    """Refuse a file with which ONNX Runtime does not compute what PyTorch does."""
    if (error := relative_error(path, x, expected)) > MAX_RELATIVE_ERROR:
        raise RunError(f"{path} deviates from the model by {error:.1e}; do not use it")
