"""A convolutional network in TorchScript, as a faster list of the same operations."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from untwine.tools.compute import limit_threads

Values = dict[str, Any]  # of the graph, by name
Step = Callable[[Values], None]
UNCHANGED = ("aten::to", "aten::contiguous", "aten::batch_norm")
"""Operations that return their first input here: types and layouts agree, norms are folded."""
CHECKS = ("prim::Constant", "prim::dtype", "aten::size", "prim::ListUnpack", "aten::eq", "prim::If")
"""Operations of which no result depends."""


class FoldedNetwork:
    """The same network with its batch norms folded into the convolutions, in channels_last.

    It knows the operations of convolutional classifiers with one input and one output. Features
    differ from the script's by rounding (a relative 1e-6).
    """

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        graph: Any = torch.jit.freeze(script.eval()).graph
        self.constants: Values = {
            node.output().debugName(): node.output().toIValue()
            for node in graph.findAllNodes("prim::Constant")
        }
        self.alias: dict[str, str] = {}  # a value that is another one here
        self.input = list(graph.inputs())[-1].debugName()
        norms = {
            node.inputsAt(0).debugName(): node for node in graph.findAllNodes("aten::batch_norm")
        }
        self.steps: list[Step] = []
        for node in graph.nodes():
            if node.kind() in UNCHANGED:
                self.alias[node.output().debugName()] = node.inputsAt(0).debugName()
            elif node.kind() == "aten::conv2d":
                self.steps.append(self.convolution(node, norms.get(node.output().debugName())))
            elif node.kind() not in CHECKS:
                self.steps.append(self.operation(node))
        (output,) = graph.outputs()
        self.output = self.name(output)

    def name(self, value: Any) -> str:
        """The name under which a value of the graph is kept."""
        name = value.debugName()
        while name in self.alias:
            name = self.alias[name]
        return name

    def constant(self, value: Any) -> Any:
        return self.constants[self.name(value)]

    def convolution(self, node: Any, norm: Any | None) -> Step:
        """A convolution with its batch norm, if it has one, folded in double precision."""
        weight, bias, stride, padding, dilation, groups = list(node.inputs())[1:]
        folded, offset = self.constant(weight), self.constant(bias)
        if norm:
            inputs: list[Any] = [self.constants.get(self.name(value)) for value in norm.inputs()]
            gamma, beta, mean, variance, epsilon = (inputs[i] for i in (1, 2, 3, 4, 7))
            scale = (variance.double() + epsilon).rsqrt() * (1 if gamma is None else gamma.double())
            shift = (0 if offset is None else offset.double()) - mean.double()
            offset = (beta.double() + shift * scale).float()
            folded = (folded.double() * scale[:, None, None, None]).float()
        folded = folded.contiguous(memory_format=torch.channels_last)
        options = [self.constant(value) for value in (stride, padding, dilation, groups)]
        source, target = self.name(node.inputsAt(0)), self.name(node.output())

        def step(values: Values) -> None:
            values[target] = functional.conv2d(values[source], folded, offset, *options)

        return step

    def operation(self, node: Any) -> Step:
        """Any other operation, called as in the script."""
        names, target = [self.name(value) for value in node.inputs()], self.name(node.output())
        if node.kind() == "prim::ListConstruct":
            function = _as_list
        elif node.kind() == "aten::relu" and _only_reader(node):
            function = torch.relu_
        else:
            function = getattr(torch.ops.aten, node.kind().removeprefix("aten::"))

        def step(values: Values) -> None:
            values[target] = function(
                *(values[name] if name in values else self.constants[name] for name in names)
            )

        return step

    def __call__(self, images: Tensor) -> Tensor:
        values = {self.input: images.contiguous(memory_format=torch.channels_last)}
        for step in self.steps:
            step(values)
        return values[self.output]


def _only_reader(node: Any) -> bool:
    """Whether this operation alone reads what a convolution made, so that it may overwrite it."""
    value = node.inputsAt(0)
    readers = [use.user for use in value.uses() if use.user.kind() not in CHECKS]
    made_by = value.node().kind()
    if made_by in UNCHANGED:
        return len(readers) == 1 and _only_reader(value.node())
    return len(readers) == 1 and made_by == "aten::conv2d"


def _as_list(*items: Any) -> list[Any]:
    return list(items)


def in_threads(function: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    """The function of a batch on the CPU, whose parts are computed in threads of their own.

    Threads that share an operation wait for each other in each of them, which is slow on a busy
    machine; these wait once.
    """
    count = torch.get_num_threads()

    @torch.inference_mode()
    def compute(part: Tensor) -> Tensor:
        return function(part)

    with limit_threads(1), ThreadPoolExecutor(count) as pool:
        return torch.cat(list(pool.map(compute, batch.tensor_split(min(count, len(batch))))))
