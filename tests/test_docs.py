"""README and docs say what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from untwine.registry import likelihoods, models, networks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_generated_tables_and_pages_are_fresh():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_the_readme_example_runs():
    (example,) = blocks(README, "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names = {}
    exec(example.replace("steps=3000", "steps=5").replace("size=32", "size=16"), names)
    assert names["codes"].shape == (3, 10) and names["images"].shape[0] == 16


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script, "--quick"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_part_that_pages_name_exists():
    known = {name for registry in (models, networks, likelihoods) for name in registry}
    guide = (ROOT / "docs" / "which-model.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("|")][2:]
    wanted = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[2])}
    assert wanted <= known
