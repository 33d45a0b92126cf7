"""The loops of docs/how-to/own-loop.md, as they are written there, train a model that loads."""

import re
from pathlib import Path

import pytest
import torch

import untwine

pytestmark = pytest.mark.filterwarnings("default")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-loop.md"


def loop(library):
    """The example that imports a library."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    (code,) = [block for block in blocks if f"import {library}\n" in block]
    return code


@pytest.mark.parametrize("library", ["lightning", "accelerate"])
def test_the_example_of_the_page(library, tmp_path, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(loop(library), names)
    loaded, data = untwine.load("my-model"), names["data"]
    fresh = untwine.build("beta-tcvae", data, latent=4, network="mlp").eval()
    x = data.take(range(64))
    with torch.no_grad():
        assert loaded(x)["nll"] < fresh(x)["nll"]
