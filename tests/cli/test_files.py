"""The commands `untwine check` and `untwine trust`."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from untwine.cli.main import app

OLD = Path(__file__).parents[1] / "fixtures" / "version-0.1"


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_CONFIG", str(tmp_path / "config"))
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_whole_files_pass_and_a_damaged_one_is_named_with_its_remedy(old):
    for place in (old / "runs", old / "studies", old / "studies" / "small"):
        done = command("check", place)
        assert done.exit_code == 0 and "model.safetensors\twhole" in done.output
        assert "not sealed" in done.output and "0 damaged" in done.output
    (weights,) = (old / "runs").glob("*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    done = command("check", weights.parent)
    assert done.exit_code == 1 and "start the run again" in done.output


def test_what_is_no_run_is_refused(tmp_path):
    for name in ("check", "trust"):
        done = command(name, tmp_path)
        assert done.exit_code and "there is no run" in str(done.exception)


def test_trust_marks_runs_and_studies(old):
    done = command("trust", old / "runs", old / "studies")
    assert done.exit_code == 0 and len(done.output.splitlines()) == 1 + 2 + 1 + 3
    assert len(list(old.rglob(".mark"))) == 6
