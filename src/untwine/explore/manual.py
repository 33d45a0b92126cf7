"""A page about the service itself, written from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from untwine.pages import Section, render

Schema = dict[str, Any]


def manual(schema: Schema) -> bytes:
    """All addresses, what they take and what they answer."""
    operations = [
        operation_section(method, address, operation)
        for address, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    records = [
        record_section(name, record)
        for name, record in schema["components"]["schemas"].items()
        if "properties" in record
    ]
    sections = [opening_section(schema), *operations, *records]
    return render("page.html", title=schema["info"]["title"], sections=sections)


def opening_section(schema: Schema) -> Section:
    """What the service is, and how it answers."""
    info, any_operation = schema["info"], schema["paths"]["/api/runs"]["get"]
    return Section(
        "service",
        info["title"],
        f"{info['description']} For programs: /api/openapi.json.",
        header=("answer", "when"),
        rows=tuple(
            (code, told["description"]) for code, told in any_operation["responses"].items()
        ),
    )


def operation_section(method: str, address: str, operation: Schema) -> Section:
    """What one address takes and answers."""
    (kind, content), *_ = operation["responses"]["200"]["content"].items()
    answer = kind_of(content["schema"]) if kind == "application/json" else kind
    return Section(
        f"{method}{address}",
        f"{method.upper()} {address}",
        f"{operation['description']} Answers {answer}.",
        header=("parameter", "where", "kind", "what"),
        rows=tuple(parameter_rows(operation)) or (("none", "", "", ""),),
    )


def parameter_rows(operation: Schema) -> Iterator[tuple[str, str, str, str]]:
    """A row for each parameter, and for a body."""
    for given in operation.get("parameters", []):
        kind = kind_of(given["schema"])
        yield given["name"], given["in"], kind, given.get("description", "")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield "", "body", kind_of(content["schema"]), kind


def record_section(name: str, record: Schema) -> Section:
    """The fields of a record that addresses take or answer."""
    rows = tuple((field, kind_of(schema)) for field, schema in record["properties"].items())
    return Section(name, name, record.get("description", ""), header=("field", "kind"), rows=rows)


def kind_of(schema: Schema) -> str:
    """A type in words.

    >>> kind_of({"type": "integer", "minimum": 2, "maximum": 41, "default": 9})
    'integer, 2 to 41, 9 if not given'
    >>> kind_of({"type": "array", "items": {"$ref": "#/components/schemas/Example"}})
    'list of Example'
    """
    words = [name_of(schema)]
    schema = {**schema, **schema.get("anyOf", [{}])[0]}
    if "minimum" in schema:
        words.append(f"{schema['minimum']} to {schema['maximum']}")
    if schema.get("default") not in (None, []):
        words.append(f"{schema['default']} if not given")
    return ", ".join(words)


def name_of(schema: Schema) -> str:
    """What a value is, without its limits."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(name_of(one) for one in schema["anyOf"] if one != {"type": "null"})
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("type") == "array":
        inner = schema["items"] if "items" in schema else {"anyOf": schema.get("prefixItems", [])}
        return f"list of {name_of(inner)}"
    if "additionalProperties" in schema:
        return f"{name_of(schema['additionalProperties'])} by name"
    return schema.get("type", "anything")
