"""README and docs say what the code does."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import untwine
from untwine.cli import main
from untwine.registry import likelihoods, models, networks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def load_script(path):
    """A script outside the package as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = load_script(ROOT / "docs" / "site.py")


PAGES = [
    page
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if "```python" in page.read_text("utf-8") and page.parent.name != "tutorials"
]
BLOCK = re.compile(r"(<!-- not run.*?-->\n)?```python\n(.*?)```", flags=re.DOTALL)


def python_blocks(text):
    """The examples of a page, without those that are marked as not to be run."""
    return [code for mark, code in BLOCK.findall(text) if not mark]


def test_generated_tables_and_pages_are_fresh():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_the_readme_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = python_blocks(README)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names = {}
    for written, quick in {
        "steps=3000": "steps=5",
        "size=32": "size=16",
        '"sap[svm]"])': '"sap[svm]"], n_examples=200)',
    }.items():
        assert written in example
        example = example.replace(written, quick)
    exec(example, names)
    assert names["codes"].shape == (3, 10) and names["images"].shape[0] == 16


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code in python_blocks(page.read_text("utf-8")):
        exec(code, names)


def test_pages_name_commands_that_exist():
    """Every line that begins with `untwine` names a command and options that it has."""
    app = typer.main.get_command(main.app)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    lines = [line for page in pages for line in command_lines(page.read_text("utf-8"))]
    assert len(lines) > 40
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command = app
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        is_named = not getattr(command, "commands", {}) or not words or words[0].startswith("-")
        assert is_named, f"{line}: no such command"
        params = [*app.params, *command.params]
        options = {name for p in params for name in (*p.opts, *p.secondary_opts)}
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert used <= options | {"--help"}, f"{line}: no such option"


def command_lines(text):
    """Lines of fenced blocks that call the command."""
    fenced = text.split("```")[1::2]
    lines = [line for block in fenced for line in block.splitlines() if line.startswith("untwine ")]
    return [part.strip() for line in lines for part in line.split("&&")]


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
def test_links_lead_somewhere(path):
    for target in site.LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_pages_are_in_the_navigation_of_the_site():
    assert list(site.unlisted(ROOT)) == []


@pytest.fixture(scope="module")
def built_site(tmp_path_factory):
    """The folder of the site, built offline."""
    pytest.importorskip("zensical", reason="the extra `docs` is not installed")
    root = tmp_path_factory.mktemp("site")
    site.stage(ROOT, root / "build" / "pages")
    shutil.copy(ROOT / "zensical.toml", root)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(build, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "site"


def test_the_site_has_every_page_and_no_broken_links(built_site):
    assert list(site.broken(built_site)) == []
    assert len(list(built_site.rglob("*.html"))) >= len(list(ROOT.glob("docs/**/*.md")))


def test_the_site_from_disk_asks_no_other_host(built_site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page, asked = browser.new_page(viewport={"width": 380, "height": 700}), []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "docs/tutorials/first-model.html", "docs/reference/api.html"):
            page.goto((built_site / name).as_uri())
            width = "document.documentElement.scrollWidth - window.innerWidth"
            assert page.evaluate(width) <= 0, f"{name} is wider than a phone"
        browser.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_check_of_the_site_finds_what_is_broken(tmp_path):
    page = '<p id="here"><a href="b.html">x</a><a href="#there">y</a><a href="https://x.org">z</a>'
    (tmp_path / "a.html").write_text(page + '<script src="https://x.org/a.js"></script>', "utf-8")
    assert [line.partition(" ")[2] for line in site.broken(tmp_path)] == [
        "loads https://x.org/a.js from another host",
        "links to b.html, which does not exist",
        "links to #there, which has no such place",
    ]


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script, "--quick"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_python_names_has_all_of_them():
    text = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    headings = set(re.findall(r"^#+ (untwine\.[\w.]+)$", text, flags=re.MULTILINE))
    assert {f"untwine.{name}" for name in untwine.__all__} <= headings
    for package in (untwine.plot, untwine.study):
        assert {f"{package.__name__}.{name}" for name in package.__all__} <= headings
    methods = {"encode", "decode", "sample", "reconstruct", "traverse", "save", "log_likelihood"}
    assert not [name for name in methods if f"**`{name}(" not in text]


def test_the_page_of_commands_has_every_command_and_option():
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text("utf-8")
    manual = load_script(ROOT / "docs" / "manual.py")
    sections = dict(re.findall(r"^## (untwine.*?)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S))
    known = dict(manual.commands())
    assert sections.keys() == known.keys() and len(known) > 20
    for name, command in known.items():
        visible = [p for p in command.params if not getattr(p, "hidden", False)]
        options = [option for p in visible for option in p.opts if option.startswith("--")]
        missing = [o for o in options if o != "--help" and f"`{o}`" not in sections[name]]
        assert not missing, f"{name} lacks {missing}"


def test_tutorials_have_the_code_of_their_notebooks():
    notebooks = load_script(ROOT / "docs" / "notebooks.py")
    assert notebooks.out_of_date(ROOT) == []
    pages = {page.stem for page in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert pages == {*notebooks.NOTEBOOKS.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first_model", "photos", "study", "own_part"])
def test_notebooks_execute(name, monkeypatch):
    pytest.importorskip("nbclient", reason="the extra `docs` is not installed")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = load_script(ROOT / "docs" / "notebooks.py").execute(name)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in shown)


def test_every_part_that_pages_name_exists():
    known = {name for registry in (models, networks, likelihoods) for name in registry}
    guide = (ROOT / "docs" / "how-to" / "which-model.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("|")][2:]
    wanted = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[2])}
    assert wanted <= known
