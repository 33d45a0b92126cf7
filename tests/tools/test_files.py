"""Atomic files and JSON."""

import os
from pathlib import Path

import pytest

import untwine
from untwine import plugins
from untwine.errors import RunError, UntwineError
from untwine.explore.gallery import Gallery
from untwine.runs.finding import open_trained
from untwine.tools.files import resolve, write_atomically
from untwine.tools.sealed import read_json, write_json


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_text("old")

    def fail(stream):
        stream.write(b"new")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "a", fail)
    assert os.listdir(tmp_path) == ["a"] and Path(tmp_path / "a").read_text() == "old"


@pytest.mark.parametrize("name", ["~no-such-user/x", "a\0b"])
def test_names_that_are_none_are_refused_by_all_who_open(name):
    for act in (untwine.load, lambda name: Gallery.find([name]), open_trained):
        with pytest.raises(UntwineError):
            act(name)


def test_json_is_written_and_read(tmp_path):
    write_json(tmp_path / "run.json", {"a": [1, 2.5, None]})
    assert read_json(tmp_path / "run.json") == {"a": [1, 2.5, None]}
    assert os.listdir(tmp_path) == ["run.json"]


def test_numbers_that_json_does_not_have_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "run.json", {"loss": float("nan")})
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("content", ["{", "[1]", "\x00"])
def test_damaged_json_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        read_json(tmp_path / "run.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RunError, match=r"is not a run: it has no run\.json"):
        read_json(tmp_path / "run.json")


def test_a_link_that_leads_to_itself_is_no_error_until_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "")
    (tmp_path / "loop").symlink_to("loop")
    assert not resolve(tmp_path / "loop").exists()
    for use in (plugins.announce, untwine.dataset):
        with pytest.raises(UntwineError, match="loop"):
            use(str(tmp_path / "loop"))
