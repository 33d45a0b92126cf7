"""Several seeds of one model trained at once in one process: a prototype that `many.py` measures.

The step of one model, there and back, is recorded as a list of tensor operations. Each is then done
for all seeds by one operation on stacked tensors, where that gives the same bits as one operation
per seed does, and per seed where it does not; this is found out on the first batch. What then runs
has neither layers nor a graph of gradients, and the overhead of an operation is paid once for all.

Two more things keep the results those of single runs: the noise of a seed comes from a generator of
its own, by the call that a single run makes; and Adam sees the weights of every seed as tensors of
their own, as it rounds otherwise at the ends of tensors.
"""

import operator

import torch
from torch.func import functional_call, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.adam import adam
from torch.utils._pytree import tree_leaves, tree_map

from untwine.data import mix
from untwine.records import Batch
from untwine.train import keep_memory

aten = torch.ops.aten
DRAWS = {aten.randn.default: torch.randn, aten.rand.default: torch.rand}
RULES = {  # where the rule of vmap rounds otherwise, and this does not
    aten.addmm.default: lambda bias, a, b: torch.baddbmm(bias[:, None], a, b),
    aten.binary_cross_entropy_with_logits.default: aten.binary_cross_entropy_with_logits.default,
}


class Stack:
    """Models that differ in weights and seeds alone, trained together on a CPU.

    Their parameters become parts of stacked tensors. With `exact` they end as each alone would,
    bit for bit. Refused are adversaries, running statistics, buffers that differ, and random
    choices that depend on weights or data.
    """

    def __init__(self, models, data, seeds, *, batch=64, lr=1e-4, exact=True):
        require_plain(models)
        keep_memory()
        self.models, self.data, self.batch, self.lr = models, data, batch, lr
        here = torch.device("cpu")
        self.orders = [data.batches(batch, mix(seed, 0), here) for seed in seeds]
        self.streams = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.weights = joined([list(model.parameters()) for model in models])
        self.sums = torch.zeros(len(models), 1 + len(models[0].objective.terms))
        self.steps, self.clock = 0, torch.zeros((), dtype=torch.long)
        given = [*self.weights, *self.batches()]
        recording = Recording(models[0], self.clock, given)
        self.draws = recording.draws
        self.run = recording.for_all(exact)
        self.apart = recording.apart
        self.exact = exact
        self.moments = Moments(parts_of(self.weights) if exact else self.weights)

    def batches(self):
        """The batch of every seed, (K, B, *shape), and its groups if there are any."""
        index = torch.cat([order.at(self.steps) for order in self.orders])
        given = self.data.batch(index, self.clock)
        sizes = len(self.models), self.batch
        return [t.unflatten(0, sizes) for t in (given.x, given.group) if t is not None]

    @torch.no_grad()
    def step(self):
        """One step of every model."""
        noise = [
            torch.stack([draw(*size, generator=stream) for stream in self.streams])
            for draw, size in self.draws
        ]
        terms, *grads = self.run(self.clock, *self.weights, *self.batches(), *noise)
        self.moments.step(parts_of(grads) if self.exact else grads, self.lr)
        self.sums += terms
        self.clock += 1
        self.steps += 1


class Moments:
    """Adam over many tensors in one call."""

    def __init__(self, weights):
        self.weights = [part.detach() for part in weights]
        self.first = [torch.zeros_like(part) for part in weights]
        self.second = [torch.zeros_like(part) for part in weights]
        self.steps = [torch.zeros(()) for _ in weights]

    def step(self, grads, lr):
        adam(
            self.weights, grads, self.first, self.second, [], self.steps, fused=True,
            amsgrad=False, has_complex=False, beta1=0.9, beta2=0.999, lr=lr,
            weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip


def require_plain(models):
    """Refuse what the recording of one model's step does not hold."""
    if models[0].objective.adversaries():
        raise NotImplementedError("an adversary takes steps of its own")
    if any(isinstance(module, _BatchNorm) for module in models[0].modules()):
        raise NotImplementedError("running statistics are not stacked")
    for alike in zip(*(model.buffers() for model in models), strict=True):
        if not all(torch.equal(alike[0], other) for other in alike):
            raise NotImplementedError("the models have buffers that differ")


@torch.no_grad()
def joined(tensors):
    """Lists of K models as one list of stacked tensors, of which the models now hold the parts."""
    wholes = []
    for alike in zip(*tensors, strict=True):
        wholes.append(torch.stack(alike))
        for tensor, part in zip(alike, wholes[-1], strict=True):
            tensor.data = part
    return wholes


def parts_of(wholes):
    return [part for whole in wholes for part in whole.unbind()]


class Terms(torch.nn.Module):
    """A model whose forward pass gives the terms of its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model.train()
        for module in model.modules():
            if getattr(module, "inplace", False):  # a recorded value is not changed
                module.inplace = False

    def forward(self, step, x, group=None):
        return self.model.objective(self.model.trace(Batch(x, group, step)))


def step_of(model):
    """The terms of a batch and their gradients as a function of step, weights and batch."""
    terms_of = Terms(model)
    names = [name for name, _ in terms_of.named_parameters()]

    def step(clock, *given):
        weights = [tensor.detach().requires_grad_() for tensor in given[: len(names)]]
        held = dict(zip(names, weights, strict=True))
        terms = functional_call(terms_of, held, (clock, *given[len(names) :]))
        grads = torch.autograd.grad(terms["loss"], weights)
        return torch.stack([term.detach() for term in terms.values()]), *grads

    return step


class Recording:
    """The operations of a step of one model, and how each is done for all models at once."""

    def __init__(self, model, clock, wholes):
        first = [clock, *(whole[0] for whole in wholes)]
        self.module = tidied(make_fx(step_of(model))(*first))
        self.nodes = list(self.module.graph.nodes)
        self.random = [node for node in self.nodes if is_random(node)]
        self.draws = [(DRAWS[node.target], node.args[0]) for node in self.random]
        places = [node for node in self.nodes if node.op == "placeholder"]
        self.sources = [*places, *self.random]
        self.count, self.differing = len(wholes[0]), set(self.sources[1:])
        for node in self.nodes:
            if self.differing & set(node.all_input_nodes):
                self.differing.add(node)
        noise = [draw(self.count, *size) for draw, size in self.draws]
        self.inputs = [clock, *wholes, *noise]

    def play(self, inputs, do):
        """The value of every operation, which `do` finds from those before; the result is last."""
        values = dict(zip(self.sources, inputs, strict=True))
        for node in self.nodes:
            if node.op == "get_attr":
                values[node] = getattr(self.module, node.target)
            elif node.op == "output":
                values[node] = map_arg(node.args[0], values.__getitem__)
            elif node not in values:
                values[node] = do(node, values)
        return values

    def for_all(self, exact):
        """A function of the clock and of stacked tensors, the noise last."""
        clock, *wholes = self.inputs
        alone = [self.play([clock, *(w[k] for w in wholes)], once) for k in range(self.count)]
        ways = {node: once for node in self.nodes if node not in self.differing}

        def choose(node, values):
            if node in ways:
                return once(node, values)
            for way in (self.by_rule, self.by_vmap, self.by_seed):
                found = way(node, values)
                if found is not None and (not exact or same(found, [of[node] for of in alone])):
                    ways[node] = way
                    return found
            raise NotImplementedError(f"{node.target} rounds otherwise on parts of a stack")

        self.play(self.inputs, choose)
        self.apart = sorted({str(n.target) for n, way in ways.items() if way == self.by_seed})
        replay = make_fx(
            lambda *inputs: self.play(inputs, lambda node, values: ways[node](node, values))[
                self.nodes[-1]
            ]
        )
        return tidied(replay(*self.inputs)).forward

    def by_rule(self, node, values):
        rule = RULES.get(node.target)
        if rule is None or not self.differing.issuperset(node.all_input_nodes):
            return None
        return once(node, values, rule)

    def by_vmap(self, node, values):
        inputs = node.all_input_nodes
        if node.target is operator.getitem:
            return once(node, values)
        axes = tuple(0 if value in self.differing else None for value in inputs)
        call = vmap(lambda *parts: once(node, dict(zip(inputs, parts, strict=True))), axes)
        try:
            return call(*(values[value] for value in inputs))
        except (RuntimeError, ValueError):  # vmap has no rule for it
            return None

    def by_seed(self, node, values):
        inputs = node.all_input_nodes
        each = [
            once(node, {v: values[v][k] if v in self.differing else values[v] for v in inputs})
            for k in range(self.count)
        ]
        return tree_map(lambda *parts: None if parts[0] is None else torch.stack(parts), *each)


def once(node, values, function=None):
    """The operation itself, of these values."""
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    return (function or node.target)(*args, **kwargs)


def same(found, truth):
    """Whether stacked values have the bits of those of every seed."""
    pairs = zip(tree_leaves(found), *map(tree_leaves, truth), strict=True)
    return all(
        whole[k].numpy().tobytes() == part.numpy().tobytes()
        for whole, *parts in pairs
        if whole is not None
        for k, part in enumerate(parts)
    )


def is_random(node):
    """Whether an operation draws; one that is not known, or depends on weights or data, ends it."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if node.target not in DRAWS:
        raise NotImplementedError(f"{node.target} draws in a way that is not known here")
    return True


def tidied(module):
    """The same operations without those that only give a tensor another name."""
    for node in module.graph.nodes:
        if node.target is aten.detach.default:
            node.replace_all_uses_with(node.args[0])
    module.graph.eliminate_dead_code()
    module.recompile()
    return module
