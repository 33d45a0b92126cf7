"""Sealed JSON: every changed byte is noticed, and every wrong shape is a sentence."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untwine.errors import DamagedFile, RunError
from untwine.tools.sealed import (
    FORMAT,
    MAX_JSON_BYTES,
    check_shape,
    is_sealed,
    parse_json,
    read_json,
    seal_json,
    write_json,
)

CONTENT = {"hash": "1f3a", "seconds": 12.5, "values": {"mig": 0.25}, "names": ["ä", "b"]}
SEALED = seal_json(CONTENT)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


def test_a_sealed_file_is_plain_json_with_a_format_number(tmp_path):
    write_json(tmp_path / "a.json", CONTENT)
    content = (tmp_path / "a.json").read_bytes()
    assert is_sealed(content) and content == SEALED
    assert json.loads(content) | {"seal": ""} == {**CONTENT, "format": FORMAT, "seal": ""}
    assert read_json(tmp_path / "a.json") == CONTENT
    assert parse_json(seal_json({})) == {}


@pytest.mark.parametrize("place", range(len(SEALED)))
def test_any_changed_byte_is_noticed(place):
    for bit in (1, 2, 4, 16, 32, 128):
        changed = bytearray(SEALED)
        changed[place] ^= bit
        with pytest.raises(DamagedFile):
            parse_json(bytes(changed))


@pytest.mark.parametrize("length", range(len(SEALED)))
def test_any_cut_is_noticed(length):
    with pytest.raises(DamagedFile):
        parse_json(SEALED[:length])


@given(st.data())
def test_edits_that_remain_json_are_noticed(data):
    content = bytearray(SEALED)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    if bytes(content) != SEALED:
        with pytest.raises(RunError):
            parse_json(bytes(content))


def test_a_file_of_an_older_version_is_read_without_a_seal():
    assert parse_json(json.dumps(CONTENT).encode()) == CONTENT
    with pytest.raises(DamagedFile, match="checksum is missing"):
        parse_json(json.dumps(CONTENT).encode(), sealed=True)


def test_a_file_of_a_newer_version_is_named():
    with pytest.raises(RunError, match="newer version"):
        parse_json(seal_json({"format": FORMAT + 1}))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": %s}' % (b"[" * 50 + b"]" * 50), "a is nested too deeply"),
        (b'{"a": %s}' % (b"9" * 5_000), "a number of 5,000 digits"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": "\\ud800"}', "no Unicode"),
        (b'{"a": "\\u0000"}', "null character"),
        (b'{"\\udfff": 1}', "no Unicode"),
        (b"\xff\xfe", "invalid start byte"),
        ('{"a": 1}'.encode("utf-16"), "invalid start byte"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"[]", "JSON object"),
        (b"", "Expecting value"),
        (b'{"format": true}', "checksum is missing"),
    ],
)
def test_what_no_program_should_write_is_refused_in_a_sentence(content, says):
    with pytest.raises(DamagedFile, match=says):
        parse_json(content)


SHAPES = [
    ("x", int, "is not a whole number"),
    (True, int, "is not a whole number"),
    (1.5, int, "is not a whole number"),
    ([1], [str], r"\[0\] is not text"),
    ({"a": 1}, {"a": str}, "a is not text"),
    ({}, {"a": str}, "a is missing"),
    ({"b": []}, {str: {}}, "b is not an object"),
    ("x", (int, [int]), "is not a whole number"),
    (0, None, "is not null"),
]


@pytest.mark.parametrize(("value", "shape", "says"), SHAPES)
def test_a_wrong_shape_is_named_with_its_place(value, shape, says):
    with pytest.raises(DamagedFile, match=says):
        check_shape(value, shape)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (1, float),
        ({"a": "x"}, {"a": str, "b?": int}),
        ({"a": "x", "c": {}}, {"a": str}),
        ({"a": "x", "c": 1}, {"a": str, str: int}),
        ([1, 2], (int, [int])),
        (None, (int, None)),
        ({"a": [1, {"b": None}]}, object),
    ],
)
def test_a_right_shape_passes(value, shape):
    check_shape(value, shape)


@given(VALUES, st.sampled_from([shape for _, shape, _ in SHAPES]))
def test_any_value_has_a_shape_or_is_refused(value, shape):
    try:
        check_shape(value, shape)
    except DamagedFile:
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory", "device", "large"])
def test_only_small_regular_files_are_read(tmp_path, kind):
    file, other = tmp_path / "run.json", tmp_path / "other.json"
    write_json(other, CONTENT)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "large":
        with file.open("wb") as stream:
            stream.truncate(MAX_JSON_BYTES + 1)
    else:
        file.symlink_to({"link": other, "device": "/dev/zero"}.get(kind, tmp_path / "no"))
    with pytest.raises(DamagedFile, match=r"is a link|regular file|too large"):
        read_json(file)


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    with pytest.raises(RunError, match="bytes where 10 are allowed"):
        write_json(tmp_path / "a.json", CONTENT, max_bytes=10)
    assert not os.listdir(tmp_path)


def test_very_many_small_values_are_refused_before_they_are_parsed(tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(b'{"a": [' + b"[]," * 2_000_000 + b"[]]}")
    with pytest.raises(DamagedFile, match="it holds 2,000,000 values where 1,048,576 are allowed"):
        read_json(path)
