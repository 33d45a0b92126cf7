"""YAML as plain values, with the line of each: no tags, and aliases within a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from untwine.data.incoming.bounds import describe_error

MAX_CHARACTERS = 2**18
MAX_NODES = 20_000  # as written
MAX_EXPANDED = 100_000  # with every alias replaced by what it stands for
MAX_DEPTH = 50
MAX_DIGITS = 20  # of a whole number
MERGE = "tag:yaml.org,2002:merge"
KeyPath = tuple[str | int, ...]


class LineError(Exception):
    """A mistake with its line."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


@dataclass
class PlainDocument:
    """The content of a YAML text, the line where each part begins, and entries written twice."""

    content: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    twice: list[tuple[int, str]] = field(default_factory=list)
    expanded: int = 0

    def add(self, node: yaml.Node, place: KeyPath = (), above: tuple[int, ...] = ()) -> Any:
        """A node as plain Python values; the line of each part is noted."""
        line = _line(node)
        self.lines.setdefault(place, line)
        self.expanded += 1
        if self.expanded > MAX_EXPANDED:
            raise LineError(line, f"aliases expand to more than {MAX_EXPANDED:,} entries")
        if id(node) in above:
            raise LineError(line, "an alias stands for something that contains it")
        inside = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.add(child, (*place, i), inside) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, inside)
        return _scalar(node)

    def _mapping(
        self, node: yaml.MappingNode, place: KeyPath, inside: tuple[int, ...]
    ) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == MERGE:  # `<<: *anchor`, which what stands beside it overrides
                for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if not isinstance(one, yaml.MappingNode):
                        raise LineError(_line(key), "<< must name entries, as in `<<: *anchor`")
                    content.update(self.add(one, place, inside))
        inherited = set(content)
        for key, value in node.value:
            if key.tag == MERGE:
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise LineError(_line(key), "a name before a colon must be plain text")
            name = str(key.value)
            if name in content and name not in inherited:
                self.twice.append((_line(key), f"{name} is there twice"))
            inherited.discard(name)
            self.lines[(*place, name)] = _line(key)
            content[name] = self.add(value, (*place, name), inside)
        return content


class _Loader(yaml.SafeLoader):
    """Composes nodes within limits, and refuses tags."""

    nodes = depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        line = event.start_mark.line + 1
        self.nodes, self.depth = self.nodes + 1, self.depth + 1
        if getattr(event, "tag", None):
            raise LineError(line, "tags such as !!int are not used; write the value alone")
        if self.nodes > MAX_NODES:
            raise LineError(
                line, f"there are more than {MAX_NODES:,} entries; write a smaller file"
            )
        if self.depth > MAX_DEPTH:
            raise LineError(line, f"entries are nested more than {MAX_DEPTH} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_yaml(text: str) -> PlainDocument:
    """The content of a YAML text; raises `LineError` for everything that is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        raise LineError(1, f"there are more than {MAX_CHARACTERS:,} characters")
    document = PlainDocument()
    try:
        node = yaml.compose(text, Loader=_Loader)
        document.content = None if node is None else document.add(node)
    except LineError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise LineError(
            mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}"
        ) from None
    except Exception as error:
        raise LineError(1, f"this is not YAML: {describe_error(error)}") from None
    return document


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _scalar(node: yaml.Node) -> bool | int | float | str | None:
    """A scalar as YAML reads it; dates stay text."""
    text = str(node.value)
    try:
        if node.tag.endswith(":int") and len(text) > MAX_DIGITS:
            raise ValueError
        value = yaml.SafeLoader("").construct_object(node)
    except Exception:
        raise LineError(_line(node), f"{text[:40]!r} is not a value that can be read") from None
    return value if isinstance(value, bool | int | float | str | None) else text
