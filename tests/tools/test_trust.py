"""What is marked as one's own, and what is not."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from untwine.tools.trust import is_mine, mark_as_mine


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    return tmp_path / "run" / "run.json"


def test_a_marked_file_is_mine_until_it_changes(config, file):
    assert not is_mine(file)
    mark_as_mine(file)
    assert is_mine(file)
    file.write_text("{ }")
    assert not is_mine(file)


def test_the_key_is_private_and_another_key_marks_nothing(config, file, monkeypatch, tmp_path):
    mark_as_mine(file)
    assert stat.S_IMODE((config / "key").stat().st_mode) == 0o600
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "other"))
    assert not is_mine(file)
    mark_as_mine(file)
    assert is_mine(file)


def test_a_mark_is_of_one_kind_of_file(config, file):
    mark_as_mine(file)
    study = file.with_name("study.json")
    file.rename(study)
    assert not is_mine(study)


@pytest.mark.parametrize("mark", [b"", b"0" * 64, b"\xff\xfe"])
def test_a_forged_mark_is_none(config, file, mark):
    mark_as_mine(file)
    (file.parent / ".mark").write_bytes(mark)
    assert not is_mine(file)


def test_many_processes_make_one_key(config, file):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(mark_as_mine, [file] * 16))
    assert is_mine(file)


def test_without_a_configuration_nothing_fails(file, monkeypatch, capsys):
    monkeypatch.setenv("UNTWINE_CONFIG", os.devnull)
    mark_as_mine(file)
    assert "cannot be marked" in capsys.readouterr().err and not is_mine(file)


def test_a_damaged_key_is_named_and_not_replaced(config, file, capsys):
    config.mkdir()
    (config / "key").write_bytes(b"short")
    mark_as_mine(file)
    assert "is damaged" in capsys.readouterr().err
    assert (config / "key").read_bytes() == b"short"
