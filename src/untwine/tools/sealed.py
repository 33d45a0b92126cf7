"""Sealed JSON: a checksum, a format number and a shape for every file of a run, study or cache.

The first line of a sealed file holds the checksum of all that follows it:

    {"seal": "9f86d0...",
      "format": 2,
      ...

Files of version 0.1 have neither; they are read without the checksum, and are sealed when they are
next written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine.errors import DamagedFile, RunError
from untwine.tools.files import read_bytes, sha256, write_bytes

FORMAT = 2  # version 0.1 wrote format 1, without a number
MAX_JSON_BYTES = 1 << 24
BYTES_PER_VALUE = 16  # a file is refused that may hold more values than its kind's limit allows
MAX_DIGITS = 20  # of a whole number
MAX_DEPTH = 16  # of values whose shape is not declared
SEAL_LINE = re.compile(rb'\{"seal": "([0-9a-f]{64})",\n')

Shape = Any
"""What a value must look like.

`str`, `int`, `float` (whole numbers too), `bool` or `None`; `object` for any JSON value; `[shape]`
for a list; `{"name": shape, "other?": shape}` for an object with these names, of which those with a
question mark may be missing; `{str: shape}` for all other names, which are ignored without it; a
tuple for alternatives.
"""


def read_json(
    path: Path,
    shape: Shape = object,
    *,
    remedy: str = "",
    max_bytes: int = MAX_JSON_BYTES,
    sealed: bool = False,
) -> dict[str, Any]:
    """The object in a JSON file: of bounded size, whole, and of the declared shape.

    Args:
        path: a regular file.
        shape: of its content.
        remedy: what to do about a damaged file, for the error: `evaluate the run again`.
        max_bytes: refuse a larger file before reading it.
        sealed: whether a file without a seal is refused too.
    """
    try:
        content = read_bytes(path, max_bytes, error=DamagedFile)
    except FileNotFoundError:
        raise RunError(f"{path.parent} is not a run: it has no {path.name}") from None
    try:
        _check_count(content, max_bytes // BYTES_PER_VALUE)
        return parse_json(content, shape, sealed=sealed)
    except DamagedFile as error:
        raise DamagedFile(f"{path} is damaged: {error}{remedy and f'; {remedy}'}") from None
    except RunError as error:
        raise RunError(f"{path} {error}") from None


def _check_count(content: bytes, most: int) -> None:
    """Refuse content of very many small values, which take far more memory than their text."""
    if (count := content.count(b",")) > most:
        raise DamagedFile(f"it holds {count:,} values where {most:,} are allowed")


def read_checked(path: Path, checksum: str | None, *, max_bytes: int, remedy: str) -> bytes:
    """The bytes of a file whose checksum a sealed file holds; earlier ones hold None."""
    try:
        content = read_bytes(path, max_bytes, error=DamagedFile)
    except FileNotFoundError:
        raise DamagedFile(f"{path} is missing; {remedy}") from None
    if checksum not in (None, sha256(content)):
        raise DamagedFile(f"{path} is damaged (its checksum differs); {remedy}")
    return content


def parse_json(content: bytes, shape: Shape = object, *, sealed: bool = False) -> dict[str, Any]:
    """The object in the content of a JSON file; what is wrong with it is a `DamagedFile`."""
    match = SEAL_LINE.match(content)
    if match and sha256(content[match.end() :]) != match[1].decode():
        raise DamagedFile("its checksum differs")
    data = decode_json(content)
    if not isinstance(data, dict):
        raise DamagedFile("it does not hold a JSON object")
    if not match and (sealed or "format" in data or "seal" in data):
        raise DamagedFile("its checksum is missing")
    data.pop("seal", None)
    version = data.pop("format", 1)
    if type(version) is not int or version < 1:
        raise DamagedFile(f"format is {version!r}, which is no number of a format")
    if version > FORMAT:
        raise RunError(f"has format {version}, of a newer version of untwine; install that")
    check_shape(data, shape)
    return data


def is_sealed(content: bytes) -> bool:
    """Whether the content of a JSON file begins with a seal."""
    return SEAL_LINE.match(content) is not None


def write_json(
    path: Path,
    content: Mapping[str, Any],
    *,
    max_bytes: int = MAX_JSON_BYTES,
    durable: bool = True,
) -> None:
    """Write an object as sealed JSON, atomically; `durable` as in `write_atomically`."""
    data = seal_json(content)
    if len(data) > max_bytes:
        raise RunError(f"{path} would have {len(data):,} bytes where {max_bytes:,} are allowed")
    write_bytes(path, data, durable=durable)


def seal_json(content: Mapping[str, Any]) -> bytes:
    """An object as the content of a sealed JSON file."""
    text = json.dumps({"format": FORMAT, **content}, indent=2, allow_nan=False)
    rest = f"{text.removeprefix('{').lstrip(chr(10))}\n".encode()
    return b'{"seal": "%s",\n%s' % (sha256(rest).encode(), rest)


def decode_json(content: bytes) -> Any:
    """A JSON value; text that is none, or that no program should write, is a `DamagedFile`."""
    try:
        return json.loads(
            content.decode(), parse_int=_whole_number, parse_float=_number, parse_constant=_constant
        )
    except RecursionError:
        raise DamagedFile("it is nested too deeply") from None
    except DamagedFile:
        raise
    except ValueError as error:
        raise DamagedFile(str(error)) from None


def _whole_number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise DamagedFile(f"it has a number of {len(text):,} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise DamagedFile("it has a number that is too large")
    return value


def _constant(text: str) -> float:
    raise DamagedFile(f"it holds {text}, which is no number of JSON")


def check_shape(value: Any, shape: Shape, where: str = "") -> None:
    """Refuse a value that does not have the declared shape, with a `DamagedFile`."""
    if isinstance(shape, tuple):
        _check_alternatives(value, shape, where)
    elif isinstance(shape, dict):
        _check_object(value, shape, where)
    elif isinstance(shape, list):
        for i, item in enumerate(_require(value, list, where)):
            check_shape(item, shape[0], f"{where}[{i}]")
    elif shape is object:
        _check_plain(value, where)
    elif shape is None:
        _require(value, type(None), where)
    else:
        _require(value, shape, where)
        if shape is str:
            _check_text(value, where)


def _check_object(value: Any, shape: Mapping[Any, Shape], where: str) -> None:
    _require(value, dict, where)
    for name in value:
        _check_text(name, where)
    declared = {key.removesuffix("?"): key for key in shape if key is not str}
    for name, key in declared.items():
        if name == key and name not in value:
            raise DamagedFile(f"{_join(where, name)} is missing")
    for name, item in value.items():
        if name in declared or str in shape:
            check_shape(item, shape[declared.get(name, str)], _join(where, name))


def _check_alternatives(value: Any, shapes: Sequence[Shape], where: str) -> None:
    problems: list[str] = []
    for shape in shapes:
        try:
            return check_shape(value, shape, where)
        except DamagedFile as error:
            problems.append(str(error))
    raise DamagedFile(problems[0])


def _check_plain(value: Any, where: str, depth: int = 0) -> None:
    """Refuse what no program should write: values nested too deeply, text that is no Unicode."""
    if depth > MAX_DEPTH:
        raise DamagedFile(f"{where or 'it'} is nested too deeply")
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_text(name, where)
            _check_plain(item, _join(where, name), depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item, where, depth + 1)


def _check_text(value: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DamagedFile(f"{where or 'it'} holds text that is no Unicode") from None
    if "\0" in value:
        raise DamagedFile(f"{where or 'it'} holds a null character")


def _require(value: Any, kind: type, where: str) -> Any:
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:
        raise DamagedFile(f"{where or 'it'} is not {NAMES_OF_KINDS[kind]}")
    return value


NAMES_OF_KINDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _join(where: str, name: str) -> str:
    return f"{where}.{name[:40]}".lstrip(".")
