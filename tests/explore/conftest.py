"""Small finished runs to look at: one with factors, one with clusters, one with groups."""

import pytest

import untwine
from untwine.scoring import evaluate_run

RUNS = {
    "plain": ("beta-tcvae", "sprites", {"size": 16, "beta": 4}),
    "clustered": ("gm-vae", "digits", {"size": 16, "clusters": 3, "split": "test"}),
    "grouped": ("ug-vae", "sprites", {"size": 16, "clusters": 2, "shared": 3}),
}


@pytest.fixture(scope="session")
def explored(tmp_path_factory):
    """The directory that holds the runs, and their paths by what they are."""
    out = tmp_path_factory.mktemp("explored")
    paths = {}
    for kind, (model, data, settings) in RUNS.items():
        lines = [f"{name}={value}" for name, value in settings.items()]
        numbers = {"latent": 5, "batch": 32, "steps": 60, "lr": 1e-3}
        spec = untwine.plan(model, data, network="mlp", settings=lines, **numbers)
        paths[kind] = untwine.run(spec, out, quiet=True, threads=1)
    evaluate_run(paths["plain"], ["mig", "reconstruction"], n=200)
    return out, paths
