"""What the checks of all kinds share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from untwine.errors import UntwineError
from untwine.registry import Entry, Registry


class ContractBroken(AssertionError):
    """A part does not do what all parts of its kind must do."""


def expect(condition: object, sentence: str) -> None:
    """Raise `ContractBroken` with this sentence unless a condition holds."""
    if not condition:
        raise ContractBroken(sentence)


def expect_refusal(
    call: Callable[[], object], kind: type[UntwineError], pattern: str, case: str
) -> None:
    """Require a refusal of this kind, in a sentence that matches the pattern."""
    try:
        call()
    except kind as refusal:
        expect(
            re.search(pattern, str(refusal)),
            f"{case} must be refused in a sentence with {pattern!r}, not: {refusal}",
        )
    else:
        raise ContractBroken(f"{case} must be refused with a {kind.__name__}")


def run_checks(name: str, checks: Iterable[Callable[[], None]]) -> None:
    """Run all checks of a part, then raise one `ContractBroken` with all sentences."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except (ContractBroken, UntwineError) as problem:
            problems.append(f"{name}: {problem}")
    if problems:
        raise ContractBroken("\n".join(problems))


def expect_documented(entry: Entry) -> None:
    """Require a title, a paper that the docstring names, and help for every parameter."""
    expect(entry.title, "it needs a title")
    expect(entry.paper in entry.description, f"its docstring must name the paper, {entry.paper}")
    for p in entry.parameters.values():
        expect(p.check(p.default) == p.default, f"the default of {p.name} is not of its type")
        expect(p.help, f"{p.name} is not documented under Args")


def expect_survives_json(registry: Registry, name: str) -> None:
    """Require that a choice of this name is the same after a round trip through JSON."""
    choice = registry.choose(name)
    again: Any = registry.from_json(json.loads(json.dumps(choice.to_json())))
    expect(again == choice, "its parameters change on their way through JSON")
