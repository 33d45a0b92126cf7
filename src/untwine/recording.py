"""The step of one model as a list of tensor operations, and the same list for several at once.

Each operation is done for all models by one operation on stacked tensors, where that gives the bits
of one operation per model, and model by model where it does not. What then runs has neither layers
nor a graph of gradients, and the cost of calling an operation is paid once for all.

Which bits an operation gives depends on its kernel, that on shapes and not on values, so it is
found out by trying (`Recording.compare`), and by reason where trying could miss it (`has_tails`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map

from untwine.records import Batch
from untwine.vae import VAE

aten = torch.ops.aten
TRIALS = 4  # batches on which the ways to do an operation are compared
VECTOR = 64  # values that the widest loops of kernels take at a time; fewer are left for the tail

Batches = Callable[[int], list[Tensor]]  # of a step
Values = dict[Node, Any]  # of operations
Way = Callable[[Node, Values], Any]  # to do an operation for all models; None if it cannot be done

DRAWS: dict[Any, Callable[..., Tensor]] = {
    aten.rand.default: torch.rand,
    aten.rand_like.default: torch.rand,
    aten.randn.default: torch.randn,
    aten.randn_like.default: torch.randn,
}
RULES: dict[Any, Callable[..., Tensor]] = {  # where the rule of vmap rounds otherwise
    aten.addmm.default: lambda bias, a, b: torch.baddbmm(bias[:, None], a, b),
    aten.binary_cross_entropy_with_logits.default: aten.binary_cross_entropy_with_logits.default,
}
SUMS = {
    aten.addmm.default, aten.baddbmm.default, aten.bmm.default, aten.mean.default, aten.mean.dim,
    aten.mm.default, aten.sum.default, aten.sum.dim_IntList,
}  # fmt: skip
EXACT = {  # values are moved, or each is rounded once and correctly
    operator.getitem, aten._to_copy.default, aten._unsafe_view.default, aten.abs.default,
    aten.add.Scalar, aten.add.Tensor, aten.amax.default, aten.amin.default, aten.cat.default,
    aten.clamp.default, aten.clone.default, aten.diag_embed.default, aten.diagonal.default,
    aten.diagonal_backward.default, aten.div.Scalar, aten.div.Tensor, aten.eq.Scalar,
    aten.eq.Tensor, aten.expand.default, aten.gather.default, aten.ge.Scalar, aten.ge.Tensor,
    aten.gt.Scalar, aten.gt.Tensor, aten.index.Tensor, aten.le.Scalar, aten.le.Tensor,
    aten.lift_fresh_copy.default, aten.lt.Scalar, aten.lt.Tensor, aten.masked_fill.Scalar,
    aten.mul.Scalar, aten.mul.Tensor, aten.neg.default, aten.new_full.default,
    aten.new_zeros.default, aten.ones_like.default, aten.permute.default, aten.relu.default,
    aten.rsub.Scalar, aten.select.int, aten.select_backward.default, aten.sgn.default,
    aten.slice.Tensor, aten.slice_backward.default, aten.split.Tensor,
    aten.split_with_sizes.default, aten.sqrt.default, aten.squeeze.default, aten.squeeze.dim,
    aten.stack.default, aten.sub.Scalar, aten.sub.Tensor, aten.t.default,
    aten.threshold_backward.default, aten.transpose.int, aten.triu.default, aten.unbind.int,
    aten.unsqueeze.default, aten.view.default, aten.where.self, aten.zeros_like.default,
}  # fmt: skip


class Unlike(Exception):
    """These models cannot be trained together with the results of single runs."""


class Recording:
    """The operations of a step of one model, and how each is done for all models at once.

    Args:
        model: one of them.
        weights: those of all, each (K, *shape).
        batches: what a step is given: (K, B, *shape), and (K, B) groups where there are any.
    """

    def __init__(self, model: VAE, weights: Sequence[Tensor], batches: Batches) -> None:
        self.count = len(weights[0])
        first = [torch.tensor(0), *(whole[0] for whole in (*weights, *batches(0)))]
        self.module = pure(tidied(make_fx(terms_and_gradients(model))(*first)))
        self.nodes = list(self.module.graph.nodes)
        require_fixed_shapes(self.nodes)
        random = [node for node in self.nodes if is_random(node)]
        self.draws = [(DRAWS[node.target], node.meta["val"].shape) for node in random]
        self.sources = [*(node for node in self.nodes if node.op == "placeholder"), *random]
        self.differing = set(self.sources[1:])
        for node in self.nodes:
            if self.differing & set(node.all_input_nodes):
                self.differing.add(node)
        self.ways = {node: self.possible_ways(node) for node in self.nodes}
        for step in range(TRIALS):
            near = [whole * (1 + torch.randn_like(whole) / 10) for whole in weights]
            near = [whole + torch.randn_like(whole) / 100 for whole in near]  # no bias is zero
            clock = torch.tensor(100**step)  # what is annealed is so in one of them
            self.compare([clock, *near, *batches(step), *self.noise()])
        self.run = self.for_all([torch.tensor(0), *weights, *batches(0), *self.noise()])

    def noise(self) -> list[Tensor]:
        return [draw(self.count, *size) for draw, size in self.draws]

    def possible_ways(self, node: Node) -> list[Way]:
        """The ways to do an operation that are worth a trial, the fastest first."""
        if node not in self.differing:
            return [once]
        apart: list[Way] = [self.by_seed, self.by_copy]
        return apart if has_tails(node) else [self.by_rule, self.by_vmap, *apart]

    def play(self, inputs: Sequence[Tensor], do: Way) -> Values:
        """The value of every operation, which `do` finds from those before; the result is last."""
        values: Values = dict(zip(self.sources, inputs, strict=True))
        for node in self.nodes:
            if node.op == "get_attr":
                values[node] = getattr(self.module, str(node.target))
            elif node.op == "output":
                values[node] = map_arg(node.args[0], values.__getitem__)
            elif node not in values:
                values[node] = do(node, values)
        return values

    def compare(self, inputs: list[Tensor]) -> None:
        """Drop the ways that do not give the bits of single models."""
        clock, *wholes = inputs
        alone = [
            self.play([clock, *(whole[k].clone() for whole in wholes)], once)
            for k in range(self.count)
        ]

        def compared(node: Node, values: Values) -> Any:
            while True:
                found = self.do(node, values)
                if node not in self.differing:
                    return found
                if same(found, [of[node] for of in alone]) and self.holds(node, values, alone):
                    return found
                self.ways[node].pop(0)

        self.play(inputs, compared)

    def holds(self, node: Node, values: Values, alone: Sequence[Values]) -> bool:
        """Whether the way to do a sum has the bits of single models also for random operands.

        In a trial operands may be zero or alike, as the gradients of a term whose time comes later,
        and then every order of summation gives the same.
        """
        if node.target not in SUMS or self.ways[node][0] == self.by_copy:
            return True
        whole = {value: random_like(values[value]) for value in self._apart(node)}
        parts = [{v: random_like(of[v]) for v in whole} for of in alone]
        for k, part in enumerate(parts):
            for value, tensor in part.items():
                independent(tensor).copy_(independent(tensor, whole[value][k]))
                if not torch.equal(tensor, whole[value][k]):  # more is repeated in one than in both
                    return False
        truth = [once(node, {**of, **part}) for of, part in zip(alone, parts, strict=True)]
        return same(self.do(node, {**values, **whole}), truth)

    def do(self, node: Node, values: Values) -> Any:
        """An operation in the first way that is left and can be gone."""
        while self.ways[node]:
            found = self.ways[node][0](node, values)
            if found is not None:
                return found
            self.ways[node].pop(0)
        raise Unlike(f"{node.target} rounds otherwise on a part of a stack")

    def for_all(self, inputs: Sequence[Tensor]) -> Callable[..., list[Tensor]]:
        """A function of the clock, stacked weights, batches and noise: the terms and gradients."""
        replay = make_fx(lambda *given: self.play(given, self.do)[self.nodes[-1]])
        return tidied(replay(*inputs)).forward

    def by_rule(self, node: Node, values: Values) -> Any:
        rule = RULES.get(node.target)
        if rule is None or not self.differing.issuperset(node.all_input_nodes):
            return None
        return once(node, values, rule)

    def by_vmap(self, node: Node, values: Values) -> Any:
        if node.target is operator.getitem:
            return once(node, values)
        inputs = node.all_input_nodes
        axes = tuple(0 if value in self.differing else None for value in inputs)
        call = vmap(lambda *parts: once(node, dict(zip(inputs, parts, strict=True))), axes)
        try:
            return call(*(values[value] for value in inputs))
        except (RuntimeError, ValueError):  # vmap has no rule for it
            return None

    def by_copy(self, node: Node, values: Values) -> Any:
        """Model by model on copies of the parts, as kernels may mind where a tensor begins."""
        copied = {v: [part.clone() for part in values[v]] for v in self._apart(node)}
        return self.by_seed(node, {**values, **copied})

    def by_seed(self, node: Node, values: Values) -> Any:
        parts = [{v: values[v][k] for v in self._apart(node)} for k in range(self.count)]
        each = [once(node, {**values, **part}) for part in parts]
        return tree_map(lambda *parts: None if parts[0] is None else torch.stack(parts), *each)

    def _apart(self, node: Node) -> list[Node]:
        """What an operation takes of each model its own."""
        return [value for value in node.all_input_nodes if value in self.differing]


class Terms(nn.Module):
    """A model whose forward pass gives the terms of its loss."""

    def __init__(self, model: VAE) -> None:
        super().__init__()
        self.model = model

    def forward(self, step: Tensor, x: Tensor, group: Tensor | None = None) -> dict[str, Tensor]:
        return self.model.objective(self.model.trace(Batch(x, group, step)))


def terms_and_gradients(model: VAE) -> Callable[..., list[Tensor]]:
    """The terms of a batch and their gradients as a function of step, weights and batch."""
    terms_of = Terms(model.train())
    names = [name for name, _ in terms_of.named_parameters()]

    def step(clock: Tensor, *given: Tensor) -> list[Tensor]:
        weights = [tensor.detach().requires_grad_() for tensor in given[: len(names)]]
        held = dict(zip(names, weights, strict=True))
        terms = functional_call(terms_of, held, (clock, *given[len(names) :]))
        grads = torch.autograd.grad(terms["loss"], weights)
        return [torch.stack([term.detach() for term in terms.values()]), *grads]

    return step


def once(node: Node, values: Values, function: Callable[..., Any] | None = None) -> Any:
    """The operation itself, of these values."""
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    call: Any = function or node.target
    return call(*args, **kwargs)


def has_tails(node: Node) -> bool:
    """Whether the last values of a tensor may be rounded otherwise than those before.

    Kernels do what fills no vector by other instructions, which round otherwise now and then; so
    seldom for an exponential of few values that no trial need see it. In a stack these values are
    not the last ones.
    """
    squared = node.target is aten.pow.Tensor_Scalar and node.args[1] in (1, 2)
    exact = node.target in EXACT and "alpha" not in node.kwargs
    if node.target in SUMS or exact or squared:
        return False
    parts = tree_leaves([value.meta.get("val") for value in (node, *node.all_input_nodes)])
    return any(part.numel() % VECTOR for part in parts if isinstance(part, Tensor))


def random_like(tensor: Tensor) -> Tensor:
    """Normal numbers that lie in memory as these do, repeated where these are."""
    numbers = torch.randn(tensor.untyped_storage().nbytes() // tensor.element_size())
    return numbers.to(tensor).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def independent(tensor: Tensor, of: Tensor | None = None) -> Tensor:
    """What of a tensor, or of one like it, is not a repetition in memory."""
    once_each = tuple(slice(None) if stride else slice(1) for stride in tensor.stride())
    return (tensor if of is None else of)[once_each]


def same(found: Any, truth: Sequence[Any]) -> bool:
    """Whether stacked values have the bits of those of every model."""
    pairs = zip(tree_leaves(found), *map(tree_leaves, truth), strict=True)
    return all(
        whole[k].numpy().tobytes() == part.numpy().tobytes()
        for whole, *parts in pairs
        if whole is not None
        for k, part in enumerate(parts)
    )


def is_random(node: Node) -> bool:
    """Whether an operation draws noise; one that draws what is not known here ends it."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if node.target not in DRAWS:
        raise Unlike(f"{node.target} draws in a way that is not known here")
    return True


def require_fixed_shapes(nodes: Sequence[Node]) -> None:
    """Refuse results whose shape depends on values: a recording has one batch's shapes."""
    for node in nodes:
        if torch.Tag.dynamic_output_shape not in getattr(node.target, "tags", ()):
            continue
        dtypes = {value.meta["val"].dtype for value in node.all_input_nodes[1:]}
        if node.target is not aten.index.Tensor or torch.bool in dtypes:
            raise Unlike(f"the shape of {node.target} depends on values")


def pure(module: GraphModule) -> GraphModule:
    """The same operations where none changes a value, so that each can be tried in several ways."""
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        changed, name = node.args[0], schema.name.removeprefix("aten::").removesuffix("_")
        aliases = getattr(changed.target, "_schema", schema).returns[0].alias_info
        if not hasattr(aten, name) or len(changed.users) > 1 or aliases:
            raise Unlike(f"{node.target} changes a value that is used elsewhere")
        node.target = getattr(getattr(aten, name), node.target._overloadname)
    module.recompile()
    return module


def tidied(module: GraphModule) -> GraphModule:
    """The same operations without those that only give a tensor another name."""
    for node in module.graph.nodes:
        if node.target is aten.detach.default:
            node.replace_all_uses_with(node.args[0])
    module.graph.eliminate_dead_code()
    module.recompile()
    return module
