"""Names of models, metrics, datasets, networks and likelihoods, and what stands behind them.

A function becomes known by its decorator; its signature is the schema and its docstring the
documentation. Nothing else has to be edited when a file is added.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from untwine import schema
from untwine.errors import ParameterError, UnknownNameError, UntwineError
from untwine.plugins import Plugin, announce, module_name, plugins
from untwine.schema import Parameter, Value

EXPRESSION = re.compile(
    r"(?P<name>[\w-]+)(?:\[(?P<variant>[^\[\]]*)\])?\s*(?:\((?P<given>.*)\))?", re.DOTALL
)
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """A registered name and its numbers: all that a run's file says about a piece."""

    name: str
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **self.params}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Choice:
        """A choice as a file has it; whether there is such a name is not checked."""
        return cls(data["name"], {key: value for key, value in data.items() if key != "name"})

    def __str__(self) -> str:
        numbers = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self.name}({numbers})" if numbers else self.name


@dataclass(frozen=True)
class Entry:
    """One registered function with its title, paper and metadata."""

    name: str
    function: Callable[..., Any]
    title: str
    paper: str
    url: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        return schema.parameters_of(self.function)

    @property
    def expressions(self) -> tuple[str, ...]:
        """The parameters that name other datasets: those whose default does."""
        named = {name: EXPRESSION.fullmatch(str(p.default)) for name, p in self.parameters.items()}
        return tuple(name for name, match in named.items() if match and match["name"] in datasets)

    def is_higher_better(self, value: str = "") -> bool:
        """Whether more of a value of this metric is better, or of its headline.

        >>> elbo = metrics["elbo"]
        >>> elbo.is_higher_better(), elbo.is_higher_better("bits_per_dimension")
        (True, False)
        """
        lower: tuple[str, ...] = self.metadata.get("lower_is_better", ())
        return bool(self.metadata["higher_is_better"]) and value not in lower

    def unreliable(self, values: Mapping[str, float]) -> str:
        """Why the values of this metric cannot be relied on; empty if they can.

        >>> metrics["log-likelihood"].unreliable({"log_likelihood": -80.0, "effective_draws": 4.2})
        'unreliable: 4.2 effective draws, fewer than 10'
        """
        below: Mapping[str, float] = self.metadata.get("unreliable_below", {})
        for key, least in below.items():
            if values.get(key, least) < least:
                return f"unreliable: {values[key]:.1f} {key.replace('_', ' ')}, fewer than {least}"
        return ""

    @property
    def plugin(self) -> Plugin | None:
        """The plug-in that registered it; None if it comes with untwine or from your script."""
        return plugins.owner(self.function.__module__)

    @property
    def description(self) -> str:
        return schema.description(self.function)

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]


class Registry:
    """The functions of one kind by name; the modules that hold them are imported on first use."""

    def __init__(self, kind: str, package: str, required: Mapping[str, str] | None = None) -> None:
        """`required` are facts that every decorator must name, each with an example."""
        self.kind = kind
        self._package, self._required = package, required or {}
        self._entries: dict[str, Entry] = {}

    def _discover(self) -> dict[str, Entry]:
        importlib.import_module(self._package)
        plugins.load(forget, check_entries)
        return self._entries

    def registered(self) -> list[Entry]:
        """What is registered so far; imports nothing."""
        return list(self._entries.values())

    def registered_by(self, module: str) -> list[Entry]:
        """What a module and the modules below it have registered so far."""
        below = f"{module}."
        return [e for e in self.registered() if f"{e.function.__module__}.".startswith(below)]

    def forget(self, module: str) -> None:
        """Remove what a module and the modules below it have registered."""
        for entry in self.registered_by(module):
            del self._entries[entry.name]

    def register(
        self, *, title: str, paper: str, url: str = "", **facts: Any
    ) -> Callable[[Function], Function]:
        """Register a keyword-only function under its own name, with hyphens."""

        def add(function: Function) -> Function:
            name = function.__name__.replace("_", "-")
            if not function.__module__.startswith(self._package):
                importlib.import_module(self._package)  # a taken name is refused here, not there
            if name in self._entries:
                raise UntwineError(f"a {self.kind} named {name!r} already exists; choose another")
            for fact, example in self._required.items():
                if fact not in facts:
                    raise UntwineError(f"the {self.kind} {name!r} needs {example} in its decorator")
            checked = _check_keywords(name, function)
            self._entries[name] = Entry(name, checked, title, paper, url, facts)
            return checked

        return add

    def __getitem__(self, name: str) -> Entry:
        wanted = name.replace("_", "-")
        for entry in self._discover().values():
            if wanted == entry.name or wanted in entry.metadata.get("aliases", ()):
                return entry
        raise UnknownNameError(schema.unknown_name(self.kind, name, self))

    def __contains__(self, name: str) -> bool:
        return name in self._discover()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._discover()))

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Names and entries, in alphabetical order."""
        return ((name, self[name]) for name in self)

    def choose(self, name: str, /, **params: object) -> Choice:
        """The name with all its parameters, checked; missing ones at their defaults.

        >>> models.choose("beta-vae", beta=6)
        Choice(name='beta-vae', params={'beta': 6.0})
        """
        entry = self[name]
        return Choice(entry.name, schema.fill_defaults(entry.name, entry.parameters, params))

    def read(self, text: str) -> Choice:
        """A choice as a person writes it: `sprites`, `sprites(size=32)`, `sap[svm]`.

        The name in brackets is a variant: numbers that go together, declared with the entry.

        >>> datasets.read("sprites(size=32)")
        Choice(name='sprites', params={'size': 32})
        """
        entry, params = self.parse(text)
        return self.choose(entry.name, **params)

    def parse(self, text: str) -> tuple[Entry, dict[str, Value]]:
        """The entry that a text names, and the numbers that it sets."""
        match = EXPRESSION.fullmatch(text.strip())
        if not match:
            raise ParameterError(
                f"{text!r} is not a {self.kind}; write NAME, NAME(PARAMETER=VALUE, ...)"
                " or NAME[VARIANT]"
            )
        entry = self[match["name"]]
        variant = self.variant(entry, match["variant"])
        own = schema.parse_arguments(entry.name, entry.parameters, match["given"] or "")
        return entry, {**variant, **own}

    def variant(self, entry: Entry, name: str | None) -> Mapping[str, Value]:
        """The numbers that a variant of an entry sets."""
        variants: Mapping[str, Mapping[str, Value]] = entry.metadata.get("variants", {})
        if not name:
            return {}
        if not variants:
            raise UnknownNameError(f"{entry.name} has no variants; write {entry.name} alone")
        if name not in variants:
            raise UnknownNameError(schema.unknown_name(f"variant of {entry.name}", name, variants))
        return variants[name]

    def label(self, choice: Choice) -> str:
        """How a choice is called in tables: its name, with the variant it is, if any.

        >>> metrics.label(metrics.choose("mig"))
        'mig'
        """
        variants: Mapping[str, Mapping[str, Value]] = self[choice.name].metadata.get("variants", {})
        fitting = [
            name
            for name, numbers in variants.items()
            if all(choice.params[key] == value for key, value in numbers.items())
        ]
        if not fitting:
            return choice.name
        closest = max(fitting, key=lambda name: len(variants[name]))
        return f"{choice.name}[{closest}]"

    def non_default(self, choice: Choice) -> dict[str, Any]:
        """The name with only those numbers that are not at their defaults."""
        parameters = self[choice.name].parameters
        changed = {k: v for k, v in choice.params.items() if v != parameters[k].default}
        return {"name": choice.name, **changed}

    def expression(self, choice: Choice, *hidden: str) -> str:
        """A choice as a person writes it, without numbers at their defaults and those hidden.

        >>> datasets.expression(datasets.choose("sprites", size=32))
        'sprites(size=32)'
        """
        params = self.non_default(choice)
        visible = {k: v for k, v in params.items() if k not in ("name", "digest", *hidden)}
        return str(Choice(choice.name, visible))

    def from_json(self, data: Mapping[str, Any]) -> Choice:
        piece = Choice.from_json(data)
        return self.choose(piece.name, **piece.params)

    def make(self, choice: Choice) -> Any:
        """Call the function behind a choice with its numbers."""
        return self[choice.name].function(**choice.params)


def _check_keywords(name: str, function: Function) -> Function:
    """The function, refusing keywords that its signature does not allow."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        inputs = {key: keywords.pop(key) for key in positional() if key in keywords}
        return function(*args, **inputs, **schema.fill_defaults(name, parameters(), keywords))

    @functools.cache
    def parameters() -> dict[str, Parameter]:
        return schema.parameters_of(function)

    @functools.cache
    def positional() -> list[str]:
        return [key for key in inspect.signature(function).parameters if key not in parameters()]

    return cast(Function, call)


def import_all(package: str, namespace: dict[str, Any], registry: Registry) -> None:
    """Import every module of a package and offer its registered functions as attributes.

    Called at the end of the package's `__init__`, so that `package.name` is always the function
    and never the module of the same name.
    """
    for module in pkgutil.iter_modules(namespace["__path__"]):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package}.{module.name}")
    for entry in registry.registered():
        namespace[entry.function.__name__] = entry.function


def forget(module: str) -> None:
    """Remove what a module and the modules below it have registered."""
    for registry in REGISTRIES:
        registry.forget(module)


def check_entries(module: str) -> None:
    """Refuse what a module has registered if it could not be listed, chosen and stored."""
    for registry in REGISTRIES:
        for entry in registry.registered_by(module):
            texts: dict[str, object] = {
                "title": entry.title,
                "paper": entry.paper,
                "url": entry.url,
            }
            for name, text in texts.items():
                if not isinstance(text, str):
                    raise UntwineError(f"the {name} of {entry.name} must be text, not {text!r}")
            for parameter in entry.parameters.values():
                if not schema.is_supported(parameter.type):
                    raise UntwineError(f"{entry.name}.{parameter.name} has no type that can be set")
                parameter.check(parameter.default)
            if registry is metrics:
                entry.is_higher_better()
                low, high = entry.metadata["range"]
                if not isinstance(low, int | float) or not isinstance(high, int | float | None):
                    raise UntwineError(f"the range of {entry.name} must be two numbers")
                for params in entry.metadata.get("variants", {}).values():
                    schema.fill_defaults(entry.name, entry.parameters, params)


def load_plugin(path: str | Path) -> Plugin:
    """Import a plug-in: a .py file, or a folder with an `__init__.py`, that registers parts.

    Its parts are known by name from then on, here and in the workers of studies.
    """
    place = announce(path)
    plugins.failures.pop(str(place), None)  # it may have been mended
    plugins.load(forget, check_entries, again=True)
    if str(place) in plugins.failures:
        raise ParameterError(f"the plug-in {path} fails: {plugins.failures[str(place)]}")
    plugin = plugins.owner(module_name(place))
    assert plugin is not None
    return plugin


def plugins_of(entries: Iterable[Entry]) -> tuple[Plugin, ...]:
    """The plug-ins that some entries come from, by name."""
    owners = {entry.plugin for entry in entries} - {None}
    return tuple(sorted(cast(set[Plugin], owners), key=lambda plugin: plugin.name))


def require_plugins(needed: Iterable[Plugin]) -> None:
    """Refuse what needs a plug-in that is not loaded; warn if its source has changed."""
    plugins.load(forget, check_entries)
    plugins.require(needed)


models = Registry("model", "untwine.models")
metrics = Registry(
    "metric",
    "untwine.metrics",
    {"higher_is_better": "higher_is_better=True or False", "range": "range=(0.0, 1.0) or the like"},
)
datasets = Registry("dataset", "untwine.datasets")
networks = Registry("network", "untwine.networks")
likelihoods = Registry("likelihood", "untwine.likelihoods")
REGISTRIES = (models, metrics, datasets, networks, likelihoods)
model = models.register
metric = metrics.register
dataset = datasets.register
network = networks.register
likelihood = likelihoods.register


def value_name(metric: str, key: str) -> str:
    """How one value of a metric is called.

    >>> value_name("mig", "mig"), value_name("sap[svm]", "sap"), value_name("dci", "completeness")
    ('mig', 'sap[svm]', 'dci.completeness')
    """
    return metric if key.replace("_", "-") == metric.partition("[")[0] else f"{metric}.{key}"
