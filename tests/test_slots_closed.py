"""Only a VAE and its parts reach into the slots, and a model does not keep its data alive."""

import gc
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import untwine
from untwine.registry import models

ROOT = Path(untwine.__file__).parent
INSIDE = {"autoencoder.py", "vae.py", "parts", "models", "networks", "testing"}
SLOT = re.compile(
    r"\.(mapping|encoder|decoder|latents|corruption)\(|\.latents\.sample\b|\.likelihood\.observe\b"
)


def slot_uses(file):
    """Lines of a file that call a slot of a model, as `path:line: code`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if SLOT.search(line)
    ]


def make_data():
    """A dataset that nothing else refers to."""
    images = np.random.default_rng(0).random((24, 8, 8))
    return untwine.from_arrays(images, np.arange(24) % 2, groups=np.arange(24) // 3)


def test_the_pattern_sees_the_slots_in_the_vae_itself():
    uses = "\n".join(slot_uses(ROOT / "autoencoder.py") + slot_uses(ROOT / "vae.py"))
    for call in (
        *("self.mapping(", "self.encoder(", "self.decoder(", "self.latents(", "self.corruption("),
        *("self.latents.sample", "self.likelihood.observe"),
    ):
        assert call in uses


def test_nothing_outside_the_model_reaches_into_its_slots():
    files = [file for file in ROOT.rglob("*.py") if file.relative_to(ROOT).parts[0] not in INSIDE]
    assert len(files) > 50
    assert [use for file in files for use in slot_uses(file)] == []


@pytest.mark.parametrize("name", list(models))
def test_a_model_does_not_keep_its_training_data_alive(name):
    data = make_data()
    references = [weakref.ref(part) for part in (data, data.source)]
    model = untwine.build(name, data, network="mlp", latent=4, **{"mlp.width": 8})
    del data
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert model.sample(2, seed=0).shape == (2, 1, 8, 8)


@pytest.mark.parametrize("name", ["vae", "factor-vae", "vamp-prior", "ml-vae"])
def test_a_trained_model_does_not_keep_its_training_data_alive(name):
    data = make_data()
    references = [weakref.ref(part) for part in (data, data.source)]
    model = untwine.build(name, data, network="mlp", latent=4, **{"mlp.width": 8})
    history = untwine.fit(model, data, steps=2, batch=8, quiet=True, device="cpu")
    del data
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert history[-1]["step"] == 2 and model.sample(2, seed=0).shape == (2, 1, 8, 8)
