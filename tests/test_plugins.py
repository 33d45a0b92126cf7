"""Plug-ins: parts from files, folders and packages, in every command, worker and run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import untwine
from untwine import plugins, registry
from untwine.cli.main import app
from untwine.errors import ParameterError, RunError, UnknownNameError, UntwineError
from untwine.registry import REGISTRIES, datasets, load_plugin, metrics, models
from untwine.runs.describe import train_command
from untwine.spec import Run, plan
from untwine.study.file import read_study
from untwine.study.folder import make_folder

GUIDE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
QUIET, PAIR, STRIPES = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
NET = """
from untwine.likelihoods.basic import gaussian
from untwine.networks.mlp import mlp
from untwine.registry import likelihood, network


@network(title="Narrow", paper="Nobody, 2026")
def narrow():
    "A narrow network (Nobody, 2026)."
    return mlp(width=3)


@likelihood(title="Sharp", paper="Nobody, 2026")
def sharp():
    "A Gaussian of little variance (Nobody, 2026)."
    return gaussian(variance=0.01)
"""
SMALL = {"network": "mlp", "steps": 2, "batch": 4, "latent": 2, "width": 4}


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Forget the plug-ins of a test after it."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    fresh = plugins.Plugins()
    for module in (registry, plugins):
        monkeypatch.setattr(module, "plugins", fresh)
    before = [{name: kind[name] for name in kind} for kind in REGISTRIES]
    modules = set(sys.modules)
    yield
    for kind, entries in zip(REGISTRIES, before, strict=True):
        kind._entries = entries
    for name in set(sys.modules) - modules:
        if "quiet" in name or "untwine_plugin" in name:
            del sys.modules[name]


@pytest.fixture
def quiet(tmp_path):
    path = tmp_path / "quiet.py"
    path.write_text(f'__version__ = "1.2"\n{QUIET}')
    return path


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def python(*words, **environment):
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("after", [False, True])
def test_the_command_takes_a_file_before_and_after_its_words(quiet, after):
    option = [f"--plugin={quiet}"]
    words = ["models", "show", "quiet-vae"]
    result = command(*words, *option) if after else command(*option, *words)
    assert result.exit_code == 0 and "Keep codes small" in result.stdout


def test_the_example_of_the_page_works(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "plugins.md").read_text("utf-8")
    path = tmp_path / "halved.py"
    path.write_text(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0])
    words = "train halved-vae sprites(size=16) --set share=0.25 --network mlp --steps 2 -q".split()
    result = command(*words, "--out", tmp_path, "--plugin", path)
    assert result.exit_code == 0, result.stderr
    result = command("models", "show", "halved-vae", "--plugin", path)
    assert result.exit_code == 0 and "Charge a share of the KL" in result.stdout
    assert "names no BibTeX" in str(command("cite", "halved-vae", "--plugin", path).exception)


def test_every_kind_of_part_can_come_from_a_file(tmp_path, monkeypatch):
    paths = []
    for name, text in {"quiet": QUIET, "pair": PAIR, "stripes": STRIPES, "net": NET}.items():
        paths.append(tmp_path / f"{name}.py")
        paths[-1].write_text(text)
    monkeypatch.setenv(plugins.VARIABLE, os.pathsep.join(map(str, paths)))
    numbers = {"network": "narrow", "likelihood": "sharp", "steps": 2, "batch": 4, "latent": 2}
    spec = plan("quiet-vae+beta-vae", "stripes", **numbers)
    assert [plugin.name for plugin in spec.plugins] == ["net.py", "quiet.py", "stripes.py"]
    path = untwine.run(spec, tmp_path / "runs", quiet=True)
    scores = untwine.evaluate_run(path, ["best-pair"], n_examples=16)
    assert 0 <= scores["best-pair"].value <= 1
    assert plan("vae", "grouped(of=stripes, by=factor 1)", **SMALL).plugins[0].name == "stripes.py"


def test_a_run_says_with_which_plug_in_it_was_made_and_opens_with_it(quiet, tmp_path):
    load_plugin(quiet)
    trained = untwine.train_run("quiet-vae", "sprites(size=16)", tmp_path, quiet=True, **SMALL)
    [plugin] = trained.spec.plugins
    assert (plugin.name, plugin.version, len(plugin.hash)) == ("quiet.py", "1.2", 12)
    record = trained.record["spec"]["plugins"]
    assert record == [{"name": "quiet.py", "version": "1.2", "hash": plugin.hash}]
    assert untwine.open_run(trained.path).spec == trained.spec
    assert "--plugin quiet.py" in train_command(trained.spec)


def test_runs_without_plug_ins_are_as_they_were(quiet):
    plain = plan("vae", "sprites(size=16)")
    load_plugin(quiet)
    assert plan("vae", "sprites(size=16)") == plain and "plugins" not in plain.to_json()
    assert plain.hash == "528ffb01f1b7"


def test_another_source_is_another_run_and_the_old_one_opens_with_a_warning(
    quiet, tmp_path, capsys
):
    load_plugin(quiet)
    spec = plan("quiet-vae", "sprites(size=16)")
    quiet.write_text(quiet.read_text().replace("1.0", "2.0"))
    done = python("-c", SHOW_HASH, UNTWINE_PLUGINS=str(quiet))
    assert len(done.stdout.strip()) == 12 and done.stdout.strip() != spec.hash
    changed = {**spec.to_json(), "plugins": [{"name": "quiet.py", "version": "1", "hash": "other"}]}
    for _ in range(2):
        Run.from_json(changed)
    assert capsys.readouterr().err.count("plug-in quiet.py 1 has changed") == 1


SHOW_HASH = "from untwine.spec import plan; print(plan('quiet-vae', 'sprites(size=16)').hash)"


def test_a_run_whose_plug_in_is_absent_says_which_and_loads_nothing(quiet, tmp_path):
    script = f"import untwine; untwine.load_plugin({str(quiet)!r}); {TRAIN % str(tmp_path)}"
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    [run] = untwine.list_runs(tmp_path)
    shutil.copy(quiet, run)  # what lies in a run is never imported
    for path in (run, tmp_path):
        (path / "conftest.py").write_text("raise SystemExit(7)")
    with pytest.raises(UnknownNameError, match=r"the plug-in quiet\.py 1\.2, not loaded here"):
        untwine.open_run(run)
    assert "needs the plug-in quiet.py" in command("runs", "--out", tmp_path).stdout
    assert "quiet-vae" not in models
    load_plugin(quiet)
    assert untwine.open_run(run).spec.model_name == "quiet-vae"


TRAIN = f"untwine.train_run('quiet-vae', 'sprites(size=16)', %r, quiet=True, **{SMALL})"


@pytest.mark.parametrize("end", ["1 / 0", "def", "import nowhere_at_all", "raise SystemExit(3)"])
def test_a_broken_plug_in_warns_by_name_and_spoils_nothing(tmp_path, quiet, end, capsys):
    broken = tmp_path / "broken.py"
    broken.write_text(f"{QUIET.replace('quiet_vae', 'loud_vae')}\n{STRIPES}\n{end}\n")
    for path in (broken, quiet):
        plugins.announce(path)
    assert "quiet-vae" in models and "vae" in models
    assert "loud-vae" not in models and "stripes" not in datasets
    assert capsys.readouterr().err.count("broken.py is left out, because it fails") == 1
    with pytest.raises(ParameterError, match=r"broken\.py fails: \w+"):
        load_plugin(broken)
    broken.write_text(STRIPES)
    load_plugin(broken)
    assert "stripes" in datasets


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("weight: NonNegative", "weight: 'NoSuchType'"),
        ("weight: NonNegative", "weight: list"),
        ("= 1.0", "= -1.0"),
        ("= 1.0", "= float('nan')"),
        ('title="Quiet VAE"', "title=3"),
    ],
)
def test_a_plug_in_of_odd_declarations_is_left_out_until_it_is_mended(quiet, old, new, capsys):
    good = quiet.read_text()
    assert old in good
    quiet.write_text(good.replace(old, new))
    os.environ[plugins.VARIABLE] = str(quiet)
    assert "quiet-vae" not in list(models) and "vae" in list(models)
    assert "quiet.py is left out, because it fails" in capsys.readouterr().err
    quiet.write_text(good)
    load_plugin(quiet)
    assert "quiet-vae" in list(models)


def test_a_model_that_fails_when_it_is_built_spoils_no_list(quiet):
    quiet.write_text(quiet.read_text().replace("(weight, CodeSize)", "(None, CodeSize)"))
    for name in ("vae", "quiet-vae"):
        shown = command("--plugin", quiet, "models", "show", name)
        assert shown.exit_code == 0 and "quiet-vae" in shown.output, shown.output


@pytest.mark.parametrize("fact", ["higher_is_better", "range"])
def test_a_metric_that_lacks_a_fact_is_left_out_and_the_others_are_listed(tmp_path, capsys, fact):
    path = tmp_path / "pair.py"
    path.write_text(re.sub(rf"\n    {fact}=.*", "", PAIR))
    plugins.announce(path)
    assert "best-pair" not in metrics and "mig" in metrics
    assert f"the metric 'best-pair' needs {fact}=" in capsys.readouterr().err


def test_a_metric_may_promise_nothing(tmp_path):
    path = tmp_path / "pair.py"
    path.write_text(re.sub(r"\n    unchanged_by=.*", "", PAIR))
    load_plugin(path)
    assert "unchanged by: nothing promised" in command("metrics", "show", "best-pair").stdout


def test_a_taken_name_is_refused_and_stays_what_it_was(tmp_path, capsys):
    path = tmp_path / "thief.py"
    path.write_text(QUIET.replace("def quiet_vae", "def vae"))
    plugins.announce(path)
    assert models["vae"].plugin is None
    assert "a model named 'vae' already exists" in capsys.readouterr().err


def test_a_taken_name_of_a_kind_that_nobody_has_looked_up_yet(tmp_path):
    path = tmp_path / "thief.py"
    path.write_text(STRIPES.replace("def stripes", "def sprites"))
    script = "from untwine.registry import datasets, models; list(models)"
    done = python("-c", f"{script}; print(datasets['sprites'].plugin)", UNTWINE_PLUGINS=str(path))
    assert done.stdout.strip() == "None" and "thief.py is left out" in done.stderr


@pytest.mark.parametrize("path", ["nothing.py", ".", "~no-such-user/x.py", "a\0b"])
def test_a_plug_in_that_is_not_there_is_refused_in_a_sentence(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"there is no plug-in at|is not the name of a file"):
        load_plugin(path)


def test_a_module_that_is_imported_already_is_not_imported_again(tmp_path, monkeypatch):
    (tmp_path / "quietly.py").write_text(QUIET)
    monkeypatch.syspath_prepend(tmp_path)
    import quietly  # noqa: F401

    plugin = load_plugin(tmp_path / "quietly.py")
    assert models["quiet-vae"].plugin == plugin
    del sys.modules["quietly"]


def test_a_folder_is_a_package_with_modules_of_its_own(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import quiet, pair\n")
    (folder / "quiet.py").write_text(QUIET)
    (folder / "pair.py").write_text(PAIR)
    plugin = load_plugin(folder)
    assert plugin.name == "parts"
    assert models["quiet-vae"].plugin == metrics["best-pair"].plugin == plugin


def test_an_installed_package_is_found_by_its_entry_point(tmp_path):
    """A package as pip lays it down: a folder, and one of metadata beside it."""
    (tmp_path / "untwine_quiet").mkdir()
    (tmp_path / "untwine_quiet" / "__init__.py").write_text(QUIET)
    facts = tmp_path / "untwine_quiet-3.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: untwine-quiet\nVersion: 3.1\n")
    (facts / "entry_points.txt").write_text("[untwine]\nquiet = untwine_quiet\n")
    source = Path(untwine.__file__).parents[1]
    path = os.pathsep.join([str(tmp_path), str(source)])
    script = "from untwine.registry import models; print(models['quiet-vae'].plugin.to_json())"
    done = python("-c", script, PYTHONPATH=path)
    assert "'name': 'quiet', 'version': '3.1', 'hash': '" in done.stdout, done.stderr


STUDY = """
study: with-plugins
plugins: [quiet.py, parts/pair.py]
models:
  quiet-vae: {weight: [1, 2]}
data: sprites(size=16)
training: {network: mlp, steps: 2, batch: 4, latent: 2}
metrics: [best-pair]
examples: 40
"""


@pytest.fixture
def study_file(quiet, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "pair.py").write_text(PAIR)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def test_a_study_hands_its_plug_ins_to_its_workers(study_file, tmp_path):
    out = tmp_path / "studies"
    result = command("study", "run", study_file, "--workers", 2, "--out", out, "-q")
    assert result.exit_code == 0, result.stderr
    table = command("study", "results", "with-plugins", "--out", out).stdout
    assert "best-pair" in table and table.count("quiet-vae") == 2


def test_the_results_of_a_study_load_no_plug_in(study_file, tmp_path):
    make_folder(read_study(study_file), tmp_path)
    done = python("-m", "untwine", "study", "status", tmp_path / "with-plugins", UNTWINE_PLUGINS="")
    assert done.returncode == 1
    assert "needs the plug-in pair.py" in done.stderr and "Traceback" not in done.stderr


def test_a_wrong_plug_in_of_a_study_is_a_mistake_on_its_line(study_file):
    study_file.write_text(STUDY.replace("quiet.py", "missing.py"))
    with pytest.raises(UntwineError, match=r"line 3: there is no plug-in at .*missing\.py"):
        read_study(study_file)


def test_plug_ins_travel_to_another_machine(quiet, monkeypatch):
    load_plugin(quiet)
    sources = plugins.pack()
    spec = plan("quiet-vae", "sprites(size=16)")
    quiet.unlink()
    script = f"from untwine.plugins import unpack; unpack({sources!r}); {SHOW_HASH}"
    assert python("-c", script, UNTWINE_PLUGINS="").stdout.strip() == spec.hash


def test_a_damaged_record_of_plug_ins_is_a_damaged_run(tmp_path):
    spec = plan("vae", "sprites(size=16)", **SMALL)
    path = untwine.run(spec, tmp_path, quiet=True)
    text = (path / "run.json").read_text()
    (path / "run.json").write_text(text.replace('"seed": 0', '"seed": 0, "plugins": [{"x": 1}]'))
    with pytest.raises(RunError, match="damaged"):
        untwine.open_run(path)
