"""Tables and pages of registry entries, for the command line, the README and the docs.

What builds models is imported where it is used, so that metrics are listed without torch.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping

from untwine.registry import Entry, Registry, datasets, likelihoods, metrics, models, networks
from untwine.schema import Value, format_value
from untwine.tools.tables import markdown_rows

Rows = list[list[str]]
EQUATION = re.compile(r"\S{1,9} (=|~) ")  # the beginning of a paragraph that is one
PLAIN_PROCESS = "z ~ N(0, I), x ~ p(x|z)"


def model_row(entry: Entry) -> list[str]:
    return [entry.name, entry.title, entry.paper, changed_slots(entry)]


def changed_slots(entry: Entry) -> str:
    """The slots and terms that a model's recipe sets at its defaults."""
    recipe = entry.function()
    return (
        ", ".join([*sorted(recipe.slots()), *(f"term {name}" for name in recipe.terms)]) or "none"
    )


def model_notes(entry: Entry) -> dict[str, str]:
    """How a model makes an example, and when to use it and when not, as its file says."""
    facts, slots = entry.metadata, entry.function().slots()
    plain = "" if slots & {"latents", "prior", "mapping", "condition"} else PLAIN_PROCESS
    notes = {
        "Generative process": facts.get("process") or plain,
        "When to use it": facts.get("use", ""),
        "When not": facts.get("avoid", ""),
    }
    return {title: text for title, text in notes.items() if text}


def metric_row(entry: Entry) -> list[str]:
    low, high = entry.metadata["range"]
    better = "higher" if entry.metadata["higher_is_better"] else "lower"
    return [
        entry.name,
        entry.title,
        entry.paper,
        f"{'−∞' if low == -math.inf else f'{low:g}'} to {'∞' if high is None else f'{high:g}'}",
        better,
        ", ".join(entry.metadata.get("variants", {})),
    ]


def metric_lines(entry: Entry) -> list[str]:
    """The invariances of a metric and the settings of its variants."""
    variants = entry.metadata.get("variants", {})
    return [
        f"unchanged by: {', '.join(entry.metadata.get('unchanged_by', ())) or 'nothing promised'}",
        *(
            f"{entry.name}[{name}]: "
            + ", ".join(f"{key} = {format_value(value)}" for key, value in values.items())
            for name, values in variants.items()
        ),
    ]


def dataset_row(entry: Entry) -> list[str]:
    return [entry.name, entry.title, entry.paper, str(entry.metadata.get("licence", "yours"))]


def piece_row(entry: Entry) -> list[str]:
    return [entry.name, entry.title, entry.paper]


KINDS: dict[str, tuple[Registry, list[str], Callable[[Entry], list[str]]]] = {
    "models": (models, ["name", "title", "paper", "changes"], model_row),
    "metrics": (metrics, ["name", "title", "paper", "range", "better", "variants"], metric_row),
    "datasets": (datasets, ["name", "title", "paper", "licence"], dataset_row),
    "networks": (networks, ["name", "title", "paper"], piece_row),
    "likelihoods": (likelihoods, ["name", "title", "paper"], piece_row),
}


def entry_table(kind: str) -> tuple[list[str], Rows]:
    """Header and rows of everything of one kind."""
    registry, header, row = KINDS[kind]
    return header, [row(registry[name]) for name in registry]


def markdown_table(kind: str) -> str:
    """A Markdown table of everything of one kind, with links to the papers."""
    registry, header, row = KINDS[kind]
    rows: Rows = []
    for name in registry:
        entry = registry[name]
        cells = row(entry)
        cells[0] = f"`{cells[0]}`"
        if entry.url:
            cells[2] = f"[{entry.paper}]({entry.url})"
        rows.append(cells)
    return markdown_rows(header, rows)


def describe_entry(kind: str, name: str) -> str:
    """A full description of one entry: its text, its parameters and its metadata."""
    registry, header, row = KINDS[kind]
    entry, _ = registry.parse(name)
    lines = [f"{entry.name}: {entry.title}", f"{entry.paper}  {entry.url}".rstrip(), ""]
    lines += [without_examples(entry), ""]
    if kind == "models":
        lines += [*(f"{title}: {text}" for title, text in model_notes(entry).items()), ""]
    if entry.parameters:
        lines.append("parameters")
        lines += [
            f"  {p.name} = {_format_default(p.default)}  ({p.type_name})  {p.help}"
            for p in entry.parameters.values()
        ]
    for label, cell in list(zip(header, row(entry), strict=True))[3:]:
        lines.append(f"{label}: {cell or 'none'}")
    if kind == "metrics":
        lines += metric_lines(entry)
    if kind == "models":
        from untwine.catalogue.pairs import partners

        yes, no = partners(entry.name)
        lines += [f"combines with: {', '.join(yes)}", f"not with: {', '.join(no) or 'none'}"]
        lines += ["", entry.metadata.get("bibtex", "")]
    return "\n".join(lines).rstrip()


def entry_page(kind: str, notes: Mapping[str, str] | None = None) -> str:
    """A Markdown page with the table and a section per entry, with further notes by name."""
    registry, *_ = KINDS[kind]
    sections = [f"# {kind.capitalize()}", markdown_table(kind)]
    for name in registry:
        entry = registry[name]
        sections += [f"## {entry.name}", *map(_as_markdown, without_examples(entry).split("\n\n"))]
        items = [
            f"- `{p.name}` = {_format_default(p.default)} ({p.type_name}): {p.help}"
            for p in entry.parameters.values()
        ]
        sections += ["\n".join(items)] if items else []
        if kind == "models":
            facts = {**model_notes(entry), "What the trials found": (notes or {}).get(name, "")}
            sections += [f"**{title}.** {text}" for title, text in facts.items() if text]
    return "\n\n".join(sections) + "\n"


def without_examples(entry: Entry) -> str:
    """The description without its doctest."""
    return inspect.cleandoc(entry.description.partition("\n>>> ")[0]).strip()


def _as_markdown(paragraph: str) -> str:
    """A paragraph; equations keep their lines.

    >>> _as_markdown("L = a\\n    + b").splitlines()
    ['```text', 'L = a', '    + b', '```']
    """
    return f"```text\n{paragraph}\n```" if EQUATION.match(paragraph) else paragraph


def _format_default(value: Value) -> str:
    return format_value(value) or "(empty)"


def citations(text: str) -> list[str]:
    """BibTeX entries of the models in an expression such as `jigsaw+beta-tcvae`, each once."""
    from untwine.spec import model_names

    texts = [models[name].metadata.get("bibtex", "") for name in model_names(text)]
    return list(dict.fromkeys(entry for text in texts if text for entry in text.split("\n\n")))
