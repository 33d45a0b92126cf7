"""Imports go downwards: the floor plan of the package, checked on every import in the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import untwine

ROOT = Path(untwine.__file__).parent
LAYERS = (
    *(
        "errors",
        "schema",
        "tools",
        "plugins",
        "registry",
        "settings",
        "distributions",
        "records",
        "slots",
        "data",
    ),
    *(
        "parts",
        "autoencoder",
        "vae",
        "latents",
        "optimisers",
        "state",
        "train",
        "estimators | renderers",
    ),
    "models | metrics | datasets | networks | likelihoods",
    *("specification", "spec", "runs", "scoring", "catalogue", "study", "plot", "report"),
    *("reproduce | explore | sklearn | testing | tuning", "cli"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split(" | ")}
ABOVE_ALL = {"__init__", "__main__"}


class Import(NamedTuple):
    importer: str  # module, without the package's own name
    module: str
    name: str = ""  # what is taken from it; empty for the module itself

    def __str__(self):
        return f"{self.importer} -> {self.module}" + (f".{self.name}" if self.name else "")


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {module_name(file): file for file in ROOT.rglob("*.py")}


def imports_of(module: str) -> Iterator[Import]:
    """All imports of the package's own modules, late and type-only ones included."""
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            top, _, inner = node.module.partition(".")
            for alias in node.names if top == "untwine" else ():
                whole = f"{inner}.{alias.name}".strip(".")
                yield (
                    Import(module, whole)
                    if whole in FILES and not is_function(inner, alias.name)
                    else Import(module, inner, alias.name)
                )


def is_function(package: str, name: str) -> bool:
    """Whether a package offers a registered function that has the name of its module."""
    return package in {"models", "metrics", "datasets", "networks", "likelihoods"} and hasattr(
        __import__(f"untwine.{package}", fromlist=[name]), name
    )


def room(module: str) -> str:
    return module.partition(".")[0]


IMPORTS = [found for module in FILES for found in imports_of(module) if found.module]


def test_every_module_has_a_level():
    assert {room(module) for module in FILES} - ABOVE_ALL == set(LEVEL)


def test_imports_go_downwards_and_siblings_leave_each_other_alone():
    wrong = [
        str(found)
        for found in IMPORTS
        if room(found.importer) not in ABOVE_ALL
        and room(found.importer) != room(found.module)
        and LEVEL[room(found.module)] >= LEVEL[room(found.importer)]
    ]
    assert not wrong


def test_nothing_private_crosses_packages():
    wrong = [
        str(found)
        for found in IMPORTS
        if room(found.importer) != room(found.module)
        and any(part.startswith("_") for part in [*found.module.split("."), found.name])
    ]
    assert not wrong


def test_modules_do_not_import_each_other_in_circles():
    graph = {module: {f.module for f in imports_of(module) if f.module} for module in FILES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_the_guide_shows_every_module_and_the_order_of_imports():
    guide = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    rule = re.search(r"Imports go downwards only:\n+```\n(.*?)```", guide, re.S)
    assert rule and " ".join(rule[1].split()) == " < ".join(LAYERS)
    tree = re.search(r"src/untwine/\n(.*?)```", guide, re.S)
    assert tree and set(re.findall(r"^  (\w+)", tree[1], re.M)) - ABOVE_ALL == set(LEVEL)
