"""The reference pages that come from the code: Python, the command line, study and paper files."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import typer

import untwine

ROOT = Path(__file__).parent.parent
STUB = ROOT / "src" / "untwine" / "__init__.pyi"
GENERATED = "<!-- Written by docs/generate.py; do not edit. -->"
ELSEWHERE = {  # packages whose functions have pages of their own
    "models": "[Models](models.md) has all of them; `untwine.models.beta_vae()` is a recipe.",
    "metrics": "[Metrics](metrics.md) has all of them; `untwine.metrics.mig(codes, factors)`.",
    "datasets": "[Datasets](datasets.md) has all of them; `untwine.dataset(name)` opens one.",
}
STUDY_ENTRIES = {
    "study": "the name, of letters, digits and hyphens; by default that of the file",
    "about": "a text for the report",
    "plugins": "files with models, metrics or other parts of your own, relative to the study file",
    "models": "a list of models, or each model with its parameters; a list of values gives one "
    "setting per value, several lists are multiplied out, and lists below `zip:` go in step; "
    "`training:` below a model overrides the entry below",
    "data": "a dataset or a list of them, as in `sprites(size=32)`, or paths",
    "seeds": "how many, counted from 0, or a list",
    "training": "see below",
    "metrics": "a list of metrics, with variants and parameters as in `sap[svm]`; `udr` compares "
    "seeds",
    "examples": "to score on; 10,000 by default",
    "scales": "named changes for `--scale`: entries that replace those above; `training` is merged",
}
TRAINING_ENTRIES = {
    "latent": "number of latents",
    "batch": "examples in a batch",
    "steps": "training steps",
    "epochs": "passes through the data, in place of steps",
    "lr": "learning rate",
    "network": "encoder and decoder, as in `mlp(width=128)`; see [networks](networks.md)",
    "likelihood": "the distribution of the data, as in `bernoulli(pixels=4096)`; see "
    "[likelihoods](likelihoods.md)",
}
PAPER_ENTRIES = {
    "title": "of the paper",
    "by": "authors and year",
    "url": "where it can be read",
    "trial": "true if its claims are tested at fixed settings and fresh seeds",
    "published": "published runs that the claims are also tested on: the folder of the imported "
    "study, how its runs and scores correspond to ours, and a text",
    "studies": "by name, each written as a [study file](study-file.md), with the scales `smoke`, "
    "`laptop` and `paper`; `real or stand-in` names data that replaces missing files, and "
    "`shipped:` a study that comes with untwine",
    "items": "by name, the tables and figures: see below",
    "decided-by": "the kind of evidence that decides its claims: `ours` (by default), `published` "
    "or `paper scale`",
    "dropped": "claims that are no longer tested: what each says, what it gave, and why",
}
ITEM_ENTRIES = {
    "title": "what it shows",
    "about": "a text for the page",
    "minutes": "at laptop scale on two cores, for `untwine reproduce`",
    "studies": "the studies it needs",
    "measure": "measures of every trained run beside the scores: a name and its parameters",
    "show": "exhibits: a name and its parameters",
    "claims": "see below",
}
CLAIM_ENTRIES = {
    "name": "under which its verdict is recorded",
    "says": "the claim, in a sentence",
    "paper": "where the paper says so",
    "ours": "in place of `paper`: what a claim of ours is for",
    "published": "changes of the test's parameters for published runs; false if none fit",
    "ceiling": "when all runs are so good that the claim cannot be decided",
    "testable": "conditions without which the verdict is `not testable here`",
}


def public_names() -> list[tuple[str, bool]]:
    """The names of `untwine/__init__.pyi` in order, and whether each is a package."""
    lines = re.findall(r"^from (\.\S*) import (\w+) as \w+$", STUB.read_text("utf-8"), re.M)
    return [(name, module == ".") for module, name in lines]


def api_page() -> str:
    """The page of every public name, with signature and docstring."""
    functions: list[str] = []
    classes: list[str] = []
    packages: list[str] = []
    for name, is_package in public_names():
        thing = getattr(untwine, name)
        if is_package:
            packages += package_part(name, thing)
        elif inspect.isclass(thing):
            classes += class_part(f"untwine.{name}", thing)
        else:
            functions += function_part(f"### untwine.{name}", f"untwine.{name}", thing)
    intro = (
        "Every public name. `import untwine` loads none of them; each is loaded when it is first "
        "used."
    )
    parts = ["# Python", GENERATED, intro, "## Functions", *functions, "## Classes", *classes]
    return "\n\n".join([*parts, "## Packages", *packages]) + "\n"


def package_part(name: str, package: Any) -> Iterator[str]:
    yield f"### untwine.{name}"
    if name in ELSEWHERE:
        yield ELSEWHERE[name]
        return
    yield from docstring(package)
    for inner in sorted(public_of(package)):
        thing = getattr(package, inner)
        heading = f"#### untwine.{name}.{inner}"
        if inspect.isclass(thing):
            yield from class_part(f"untwine.{name}.{inner}", thing, level=4)
        elif callable(thing):
            yield from function_part(heading, f"untwine.{name}.{inner}", thing)


def public_of(package: Any) -> list[str]:
    """The public names of a package, or what a module defines itself."""
    if hasattr(package, "__all__"):
        return list(package.__all__)
    own = vars(package).items()
    return [
        name
        for name, thing in own
        if not name.startswith("_") and getattr(thing, "__module__", "") == package.__name__
    ]


def function_part(heading: str, name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield heading
    yield f"```py\n{name}{signature(function)}\n```"
    yield from docstring(function)


def class_part(name: str, kind: type, *, level: int = 3) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    if not issubclass(kind, BaseException):
        yield f"```py\n{name}{signature(kind)}\n```"
    yield from docstring(kind)
    for method, thing in members(kind).items():
        function = getattr(thing, "__func__", thing)
        documented = inspect.isfunction(function) and inspect.getdoc(function)
        if documented and not method.startswith("_"):
            lines = list(docstring(function))
            yield f"**`{method}{signature(function, method=True)}`**"
            yield from lines
        elif isinstance(thing, property) and thing.__doc__ and not method.startswith("_"):
            yield f"**`{method}`**: {escaped(inspect.cleandoc(thing.__doc__))}"


def members(kind: type) -> dict[str, Any]:
    """What a class has from this project: its own, then that of its bases."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("untwine")]
    return {name: thing for base in reversed(bases) for name, thing in vars(base).items()}


def signature(function: Callable[..., Any], *, method: bool = False) -> str:
    """A signature as it is written; long ones have a line for each parameter."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    words: list[str] = []
    kinds = [p for p in found.parameters.values() if not (method and p.name in ("self", "cls"))]
    for position, p in enumerate(kinds):
        starred = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        first = p.kind is p.KEYWORD_ONLY and not any(
            other.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) for other in kinds[:position]
        )
        words += ["*"] if first else []
        kind = "" if p.annotation is p.empty else f": {annotation(p.annotation)}"
        plain = p.default is p.empty
        equals = " = " if kind else "="
        value = "" if plain else f"{equals}{default(p.default)}"
        words.append(f"{starred}{p.name}{kind}{value}")
    returns = found.return_annotation
    empty = returns is found.empty or inspect.isclass(function)
    arrow = "" if empty else f" -> {annotation(returns)}"
    line = f"({', '.join(words)}){arrow}"
    if len(line) < 80 or method:
        return line
    return "(\n" + "".join(f"    {word},\n" for word in words) + f"){arrow}"


def annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(
        r"\b(untwine|collections\.abc|typing|torch|numpy|pathlib)(\.\w+)*\.(?=\w)", "", text
    )


def default(value: Any) -> str:
    text = repr(value)
    return "..." if " at 0x" in text or "factory" in text else text


def docstring(thing: Any) -> Iterator[str]:
    """A docstring as Markdown: paragraphs, a list of arguments, what is returned, examples."""
    text = inspect.getdoc(thing) or ""
    for block in re.split(r"\n\n+", text.strip()):
        if block.startswith(">>> "):
            yield f"```pycon\n{block}\n```"
        elif match := re.match(r"(Args|Returns|Raises|Yields):\n", block):
            lines = inspect.cleandoc(block[match.end() :])
            yield arguments(lines) if match[1] == "Args" else f"{match[1]}: {escaped(lines)}"
        elif block:
            yield escaped(block)


def arguments(lines: str) -> str:
    """The list of arguments of a docstring."""
    joined = re.sub(r"\n +", " ", lines)
    pairs = (line.partition(": ") for line in joined.splitlines())
    return "\n".join(f"- `{name}`: {escaped(text)}" for name, _, text in pairs)


def escaped(text: str) -> str:
    """Text in which stars and angle brackets outside code are not Markdown."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*<|])", r"\\\1", piece) for piece in pieces
    )


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its name, groups after their parents."""
    from untwine.cli import main

    def walk(name: str, command: Any) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        for inner, child in getattr(command, "commands", {}).items():
            if not child.hidden:
                yield from walk(f"{name} {inner}", child)

    yield from walk("untwine", typer.main.get_command(main.app))


def command_page() -> str:
    """The page of every command with its arguments and options."""
    parts = ["# Command line", GENERATED]
    for name, command in commands():
        parts += [f"## {name}", *command_help(command)]
        rows = [row for p in command.params if (row := parameter_row(p))]
        if rows:
            parts.append("\n".join(["| option | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def command_help(command: click.Command) -> Iterator[str]:
    """The text of a command's help; blocks after `\\b` are kept as they are written."""
    for block in re.split(r"\n\n+", inspect.cleandoc(command.help or "")):
        if "\b" in block:
            lines = block.replace("\b", "").strip("\n").splitlines()
            yield "```\n" + inspect.cleandoc("\n".join(lines[1:])) + "\n```"
        elif block.strip():
            yield escaped(" ".join(block.split()))


def parameter_row(parameter: Any) -> str:
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return ""
    if isinstance(parameter, click.Argument) or parameter.param_type_name == "argument":
        many = " ..." if parameter.nargs != 1 else ""
        names = f"`{(parameter.metavar or parameter.name).upper()}{many}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = parameter.default
    plain = (
        "" if value is None or value is False or callable(value) or value == "" else f"`{value}`"
    )
    text = escaped(" ".join((getattr(parameter, "help", "") or "").split()))
    return f"| {names} | {plain} | {text} |"


def entry_table(title: str, entries: Mapping[str, str], known: Any) -> str:
    """A table of the entries of a file, which must be those that its reader knows."""
    if missing := set(known) ^ set(entries):
        raise SystemExit(f"docs/manual.py does not describe {', '.join(sorted(missing))}")
    rows = [f"| `{name}` | {text} |" for name, text in entries.items()]
    return "\n".join([f"| {title} | meaning |", "|---|---|", *rows])


def study_file_page() -> str:
    """The grammar of a study file."""
    from untwine.specification import NUMBER_BOUNDS, OPTIONS
    from untwine.study.document import ENTRIES, TRAINING

    explained = option_help()
    options = {name: explained[name][:1].lower() + explained[name][1:] for name in OPTIONS}
    bounds = {k: f"; from {low:,} to {high:,}" for k, (low, high) in NUMBER_BOUNDS.items()}
    training = {k: f"{v}{bounds.get(k, '')}" for k, v in TRAINING_ENTRIES.items()}
    return (
        "\n\n".join(
            [
                "# Study files",
                GENERATED,
                "A study file is YAML. [Studies](../how-to/studies.md) shows one. An unknown "
                "entry, a "
                "wrong value and a model that cannot be built are reported with their lines before "
                "anything is trained.",
                entry_table("entry", STUDY_ENTRIES, ENTRIES),
                "## training",
                entry_table("entry", {**training, **options}, TRAINING),
                "[Training](../how-to/training.md) explains the options. Names of models, "
                "datasets, "
                "networks and metrics take parameters in brackets: `mlp(width=128)`.",
            ]
        )
        + "\n"
    )


def option_help() -> dict[str, str]:
    """What the options of `untwine train` mean, by name."""
    train = dict(commands())["untwine train"]
    return {str(p.name): escaped(getattr(p, "help", None) or "").rstrip(".") for p in train.params}


def paper_file_page() -> str:
    """The grammar of a paper file, with its exhibits and the tests of its claims."""
    from untwine.reproduce.claim_tests import TESTS
    from untwine.reproduce.claims import CLAIM_KEYS
    from untwine.reproduce.items import ITEM_KEYS, paper_names, read_paper
    from untwine.study.inference import CONFIDENCE

    used = {key for name in paper_names() for key in read_paper(name).document.content}
    tests = [f"- `{name}`: {first_line(test)}" for name, test in sorted(TESTS.items())]
    return (
        "\n\n".join(
            [
                "# Paper files",
                GENERATED,
                "`src/untwine/reproduce/papers/PAPER/items.yaml` holds the tables and figures of a "
                "paper, and `untwine reproduce` makes them. "
                "[DIP-VAE's](../../src/untwine/reproduce/papers/dip_vae/items.yaml) is an example.",
                entry_table("entry", PAPER_ENTRIES, used | {"url", "trial", "published"}),
                "## items",
                entry_table("entry", ITEM_ENTRIES, ITEM_KEYS),
                "## claims",
                f"A claim has one test, whose name is an entry too. Verdicts use intervals of "
                f"{CONFIDENCE:.0%}; [how claims are tested](../explanation/claims.md) says more.",
                entry_table("entry", CLAIM_ENTRIES, CLAIM_KEYS),
                "### Tests",
                "\n".join(tests),
            ]
        )
        + "\n"
    )


def trial_notes(results: Path) -> dict[str, str]:
    """What the trials found of each model that a claim of a paper names."""
    from untwine.registry import models
    from untwine.reproduce.claims import claims_of
    from untwine.reproduce.items import read_paper
    from untwine.reproduce.overview import all_verdicts

    lines: dict[str, list[str]] = {}
    for paper, verdicts in all_verdicts(results).items():
        named = {claim.name: names_in(claim.params) for claim in claims_of(read_paper(paper))}
        for model in models:
            found = Counter(v.verdict for v in verdicts if model in named.get(v.name, ()))
            counts = ", ".join(f"{n} {verdict}" for verdict, n in found.most_common())
            if counts:
                page = f"[{paper}](../reproductions/{paper}.md)"
                lines.setdefault(model, []).append(f"{page} ({counts})")
    return {name: f"Claims that name it: {'; '.join(texts)}." for name, texts in lines.items()}


def names_in(value: Any) -> set[str]:
    """The words of all texts in a nested value, of which some are models."""
    if isinstance(value, Mapping):
        return {word for pair in value.items() for inner in pair for word in names_in(inner)}
    if isinstance(value, list | tuple):
        return {word for inner in value for word in names_in(inner)}
    return set(re.split(r"[ +=]", str(value)))


def first_line(thing: Any) -> str:
    function = getattr(thing, "function", thing)
    return escaped((inspect.getdoc(function) or "").partition("\n")[0])


PAGES = {
    "api.md": api_page,
    "command-line.md": command_page,
    "study-file.md": study_file_page,
    "paper-file.md": paper_file_page,
}
