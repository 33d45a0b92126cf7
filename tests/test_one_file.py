"""A model, a metric and a dataset are one file each: command, README and contracts follow.

The files are the examples of CONTRIBUTING.md.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
FILES = ("models/quiet_vae.py", "metrics/best_pair.py", "datasets/stripes.py")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with three files added, and a way to run Python in it."""
    root = tmp_path_factory.mktemp("project")
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, root)
    package = root / "src" / "untwine"
    for file, example in zip(FILES, EXAMPLES, strict=True):
        (package / file).write_text(example, "utf-8")

    def python(*arguments):
        environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return root, python


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        ("models", "quiet-vae", "Quiet VAE"),
        ("metrics", "best-pair", "Best pair"),
        ("datasets", "stripes", "Stripes"),
    ],
)
def test_the_command_knows_it(copy, kind, name, title):
    _, python = copy
    assert f"{name}\t{title}" in python("-m", "untwine", kind)
    assert title in python("-m", "untwine", kind, "show", name)


def test_it_trains_and_scores_from_the_command_line(copy):
    _, python = copy
    line = "train quiet-vae+beta-vae stripes --set weight=2 --steps 3 --batch 4 --set width=4 -q"
    python("-m", "untwine", *line.split())
    command = ("-m", "untwine", "evaluate", "quiet", "--examples", "40", "-q")
    assert "best-pair\t" in python(*command)


def test_the_readme_table_and_the_pages_take_it_up(copy):
    root, python = copy
    python("docs/generate.py")
    assert "| `quiet-vae` | Quiet VAE |" in (root / "README.md").read_text("utf-8")
    assert "| `stripes` | Stripes |" in (root / "docs" / "reference" / "datasets.md").read_text(
        "utf-8"
    )


def test_the_contracts_apply_to_it(copy):
    _, python = copy
    files = ("tests/test_models.py", "tests/test_metrics.py", "tests/test_datasets.py")
    options = ("-p", "no:cacheprovider", "--collect-only", "-k")
    out = python("-m", "pytest", *files, *options, "quiet-vae or best-pair or stripes")
    assert all(out.count(name) > 8 for name in ("quiet-vae", "best-pair", "stripes"))
    python(
        "-c",
        "from untwine.testing import check_dataset, check_metric, check_model\n"
        "check_model('quiet-vae'); check_metric('best-pair'); check_dataset('stripes')",
    )
