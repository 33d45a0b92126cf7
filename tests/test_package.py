"""Guards of the design: what importing costs, and what the package offers."""

import ast
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import untwine

SOURCE = Path(untwine.__file__).parent
MODULES = [m.name for m in pkgutil.walk_packages([str(SOURCE)], "untwine.")]
LARGE = {
    "torch", "numpy", "scipy", "sklearn", "numba", "pandas", "pyarrow", "h5py", "ray", "PIL",
    "matplotlib", "seaborn", "jinja2", "pooch", "fastapi", "uvicorn", "starlette",
}  # fmt: skip


PACKAGES = {"datasets", "metrics", "models", "plot", "slots", "study"}  # public as a whole
WEIGHTS = SOURCE / "estimators" / "pretrained.py"  # reads published files, known by checksum


def modules_after(code):
    """The modules loaded by a fresh interpreter after some code."""
    text = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=os.environ
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def roots(modules):
    return {name.partition(".")[0] for name in modules}


def test_importing_is_cheap():
    loaded = modules_after("import untwine")
    assert not roots(loaded) & LARGE
    assert len({name for name in loaded if name.startswith("untwine")}) == 1
    assert len(loaded - modules_after("pass")) <= 20


def test_training_loads_nothing_large_but_torch_and_numpy():
    functions = [name for name in untwine.__all__ if name not in PACKAGES]
    loaded = modules_after(f"import untwine\nfor name in {functions}: getattr(untwine, name)")
    assert roots(loaded) & LARGE == {"torch", "numpy"}
    added = loaded - modules_after("import torch, torch.nn, safetensors.torch, filelock")
    assert len({name for name in added if not name.startswith(("torch", "numpy"))}) <= 98


def test_help_loads_nothing_large():
    code = "import sys; sys.argv = ['untwine', '--help']\nfrom untwine.cli.main import main\n"
    loaded = modules_after(code + "try: main()\nexcept SystemExit: pass")
    assert "typer" in loaded and not roots(loaded) & LARGE
    assert len(loaded - modules_after("pass")) <= 150


def test_training_loads_no_compiler():
    """Torch's own takes most of a second to load, which each training and each opened run would."""
    code = "import untwine\ndata = untwine.dataset('circle')\nmodel = untwine.build('vae', data)\n"
    loaded = modules_after(code + "untwine.fit(model, data, steps=2, batch=4, quiet=True)")
    assert "torch" in loaded and "torch._dynamo" not in loaded and "numba" not in loaded


@pytest.mark.parametrize("words", [["metrics"], ["metrics", "show", "dci"]])
def test_listing_metrics_loads_nothing_large_but_numpy(words):
    """Every list of runs asks metrics, too, what to say of their scores."""
    code = f"import sys; sys.argv = {['untwine', *words]}\nfrom untwine.cli.main import main\n"
    loaded = modules_after(code + "try: main()\nexcept SystemExit: pass")
    assert roots(loaded) & LARGE == {"numpy"}


def test_scoring_arrays_needs_no_torch(tmp_path):
    np.save(tmp_path / "codes.npy", np.eye(12)[:, :3])
    np.save(tmp_path / "factors.npy", np.arange(24).reshape(12, 2) % 3)
    words = ["untwine", "score", *(str(tmp_path / f"{name}.npy") for name in ("codes", "factors"))]
    code = f"import sys; sys.argv = {[*words, '--metrics', 'mig,sap']}\n"
    loaded = modules_after(
        code + "from untwine.cli.main import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert "numpy" in loaded and "torch" not in loaded


def test_everything_listed_can_be_imported_and_nothing_else_is_public():
    for module in MODULES:
        importlib.import_module(module)
    for name in untwine.__all__:
        is_module = isinstance(getattr(untwine, name), types.ModuleType)
        assert is_module == (name in PACKAGES), f"{name} is hidden by a module, or hides one"
    public = {name for name in vars(untwine) if not name.startswith("_")}
    submodules = {name.split(".")[1] for name in MODULES}
    assert public - submodules - {"lazy_loader"} <= set(untwine.__all__)
    assert sorted(untwine.__all__) == sorted(set(untwine.__all__))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_functions_are_short_and_annotated(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.end_lineno - node.body[0].lineno
            documented = ast.get_docstring(node)
            length = body - (len(documented.splitlines()) if documented else 0)
            assert length <= 50, f"{node.name} has {length} lines"
            assert node.returns is not None, f"{node.name} has no return annotation"


def test_nothing_is_ever_unpickled():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        if path == WEIGHTS:  # it may, as long as only tensors are read
            text, replaced = re.subn(
                r'torch\.load\(read_weights\(\w+\), map_location="cpu", weights_only=True\)',
                "",
                text,
            )
            assert replaced == 1
        for word in ("import pickle", "torch.load(", "allow_pickle=True", "yaml.load("):
            assert word not in text, f"{path.name} has {word}"
