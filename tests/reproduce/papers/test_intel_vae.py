"""Measures and exhibits of the InteL-VAE reproduction on tiny inputs."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import untwine
from untwine.errors import DataError, IncompatibleError
from untwine.reproduce.exhibits import pictures
from untwine.reproduce.papers.intel_vae import exhibits, plane
from untwine.reproduce.papers.intel_vae.measures import (
    attributes,
    cluster_of,
    joint_shares,
    proportions,
)
from untwine.reproduce.papers.intel_vae.plane import (
    generate_points,
    in_gaps,
    inhomogeneity,
    posterior_codes,
    prior_codes,
    prior_mismatch,
    share_in_gap,
)
from untwine.spec import plan

POINTS = {"network": "mlp-toy", "likelihood": "gaussian"}


def finished(model, data, *, latent=2, **how):
    """An untrained run, as far as measures look at it."""
    opened = untwine.dataset(data) if isinstance(data, str) else data
    name = data if isinstance(data, str) else "mnist-01"
    built = untwine.build(model, opened, latent=latent, seed=0, **how)
    return SimpleNamespace(model=built, data=opened, spec=SimpleNamespace(data=named(name), seed=0))


def named(name):
    return SimpleNamespace(name=name, params={})


def test_gaps_are_those_of_the_data():
    points = np.array([[0.0, 0.0], [0.3, 0.1], [2.0, 0.0], [-2.0, 0.1]])
    assert share_in_gap(points, "circle") == 0.5
    assert share_in_gap(points, "clusters") == 0.5
    assert share_in_gap(np.array([[1.0, 0.0], [0.0, 0.0]]), "infinity") == 0.5
    with pytest.raises(DataError, match="no gap known in cross"):
        share_in_gap(points, "cross")


def test_a_model_that_decodes_to_the_origin_fills_the_hole():
    run = finished("vae", "circle", **POINTS, variance=1e-6)
    with torch.no_grad():
        for parameter in run.model.decoder.parameters():
            parameter.zero_()
    found = in_gaps(run, samples=500)
    assert (found["share"], found["data"]) == (1.0, 0.0)
    # all points are 2 from the origin, and two on the circle 4 · 2/π apart on average
    assert found["mismatch"] == pytest.approx(1 - 8 / np.pi / 4, abs=0.02)


def test_samples_carry_the_noise_of_the_decoder():
    run = finished("vae", "circle", **POINTS, variance=4.0)
    with torch.no_grad():
        for parameter in run.model.decoder.parameters():
            parameter.zero_()
    assert generate_points(run.model, 4_000, 0).std() == pytest.approx(2, rel=0.05)


def test_inhomogeneity_is_that_of_the_energy_distance_and_free_of_scale():
    a, b = np.array([[0.0], [1.0]]), np.array([[3.0], [5.0]])
    # E|a - b| = (3 + 5 + 2 + 4) / 4; distances within are 1 and 2
    assert inhomogeneity(a, b) == pytest.approx(1 - 3 / 7)
    assert inhomogeneity(10 * a, 10 * b) == pytest.approx(inhomogeneity(a, b))
    rng = np.random.default_rng(0)
    same, other = rng.standard_normal((2, 1_000, 2))
    assert inhomogeneity(same, other) < 0.005 < inhomogeneity(same, other + 1)


def test_a_posterior_that_is_the_prior_matches_it():
    run = finished("vae", "circle", **POINTS)
    with torch.no_grad():
        for parameter in run.model.latents.parameters():
            parameter.zero_()
    matched = prior_mismatch(run, samples=1_000)
    assert matched["aggregate"] < 0.01 and matched["own"] < 0.01
    with torch.no_grad():  # all means elsewhere
        next(p for n, p in run.model.latents.named_parameters() if n.endswith("bias")).fill_(3.0)
    assert prior_mismatch(run, samples=500)["aggregate"] > 0.2


def test_codes_are_seen_through_the_mapping():
    model = finished("intel-sphere", "circle", **POINTS).model
    x = torch.randn(50, 2)
    for codes in (prior_codes(model, 50, 0), posterior_codes(model, x, 0)):
        assert np.linalg.norm(codes, axis=1) == pytest.approx(np.ones(50), abs=1e-4)
    assert (prior_codes(model, 50, 0) == prior_codes(model, 50, 0)).all()


def test_clusters_stand_for_the_levels_they_agree_with():
    assert [cluster_of(np.array([[1, 8], [7, 2]]), level) for level in (0, 1)] == [1, 0]
    assert cluster_of(np.array([[0, 5], [0, 6]]), 0) == 0
    assert joint_shares([torch.tensor([0.2, 0.8])]).tolist() == pytest.approx([0.2, 0.8])


@pytest.fixture
def two_clusters():
    return untwine.dataset("clusters", proportions=(1, 3), count=400)


def test_learned_proportions_are_read_from_the_boundary(two_clusters):
    how = {"clusters": (2,), "learned": True, **POINTS}
    run = finished("intel-clusters", two_clusters, latent=1, **how)
    plane = run.model.mapping.planes[0]
    with torch.no_grad():
        plane.b.fill_(0.3)
    found = proportions(run, examples=400)
    share = 0.6179114  # of the standard normal below 0.3
    assert found["learned"] in (pytest.approx(share, abs=1e-6), pytest.approx(1 - share, abs=1e-6))
    assert found["true"] == 0.25
    assert found["error"] == pytest.approx(abs(found["learned"] - 0.25))
    assert found["start_error"] == 0.25
    assert found["agreement"] >= 0.5


def test_proportions_need_a_cluster_for_each_level(two_clusters):
    with pytest.raises(IncompatibleError, match="clustered mapping"):
        proportions(finished("vae", two_clusters, latent=2, **POINTS))
    three = finished("intel-clusters", two_clusters, clusters=(3,), **POINTS)
    with pytest.raises(IncompatibleError, match="3 clusters cannot each be one of 2 levels"):
        proportions(three)


class MadeUpEvidence:
    """Evidence of two runs on two datasets, made up."""

    def __init__(self):
        self.specs = {
            data: plan("vae", f"{data}(count=300)", latent=2, network="mlp-toy", steps=1)
            for data in ("circle", "star")
        }
        self.rows = pd.DataFrame(
            {
                "run": [spec.directory for spec in self.specs.values()] * 2,
                "data": ["circle", "star"] * 2,
                "seed": [0, 0, 1, 1],
                "setting": "vae",
                "gap": [0.1, 0.4, 0.3, 0.6],
            }
        )

    def runs(self, study):
        return {spec.directory: spec for spec in self.specs.values()}

    def has(self, study, description):
        return description == "vae"

    def select(self, study, description, data=""):
        return self.rows[self.rows["data"] == data] if data else self.rows

    def heading(self, *studies):
        return "circle"

    def open_model(self, study, description, seed=0, data=""):
        model = "intel-sphere" if description == "intel-sphere" else "vae"
        return finished(model, "circle", **POINTS)


def test_tables_by_data_have_the_papers_numbers_where_it_has_some():
    columns = {
        "VAE": {"runs": ["intel-sphere", "vae"], "score": "100 * gap"},
        "Other": {"runs": "vamp-prior", "score": "gap"},
    }
    rows = {
        "Circle": {"data": "circle", "paper": [17]},
        "Star": {"data": "star"},
        "Both": {},
        "Square": {"data": "square"},
    }
    (section,) = exhibits.table_by_data(MadeUpEvidence(), study="s", columns=columns, rows=rows)
    assert section.header == ("", "VAE, paper", "ours", "Other")
    assert section.rows == (
        ("Circle", "17", "20.0 ± 14.1", "–"),
        ("Star", "–", "50.0 ± 14.1", "–"),
        ("Both", "–", "35.0 ± 20.8", "–"),
    )


def test_data_are_found_by_name_or_parameter():
    spec = plan("vae", "clusters(proportions=2,3, count=300)", latent=2, network="mlp-toy")
    assert exhibits.is_on(spec, "clusters") and not exhibits.is_on(spec, "circle")
    assert exhibits.is_on(spec, "proportions=2,3") and exhibits.is_on(spec, "spread=0.30")
    assert not exhibits.is_on(spec, "proportions=1,1") and not exhibits.is_on(spec, "zeros=0")


def test_planes_have_a_figure_for_each_dataset_and_a_panel_for_each_model():
    runs = {"VAE": "vae", "Again": "vae"}
    sections = list(plane.planes(MadeUpEvidence(), study="s", runs=runs, score="gap"))
    assert [section.name for section in sections] == ["planes-s-circle", "planes-s-star"]
    titles = [axis.get_title() for axis in sections[0].figure.axes]
    assert titles == ["Data", "VAE\n20.0 ± 14.1 %", "Again\n20.0 ± 14.1 %"]
    assert len(sections[0].figure.axes[1].collections[0].get_offsets()) == plane.N_DOTS


def test_codes_have_a_panel_for_each_model():
    runs = {"VAE": "vae", "InteL-VAE": "intel-sphere"}
    (section,) = plane.plane_codes(MadeUpEvidence(), study="s", runs=runs)
    first, second = section.figure.axes
    assert [axis.get_title() for axis in (first, second)] == list(runs)
    on_circle = np.asarray(second.collections[0].get_offsets())
    assert np.linalg.norm(on_circle, axis=1) == pytest.approx(np.ones(plane.N_DOTS), abs=1e-4)


def test_samples_come_after_those_of_the_data(tiny):
    evidence = MadeUpEvidence()
    evidence.open_model = lambda *_: finished("vae", tiny, latent=3, network="mlp")
    (data, made) = pictures.samples(
        evidence, study="s", runs={"VAE": "vae"}, scores={"gap": "gap"}, rows=2, columns=3
    )
    assert data.picture.shape == made.picture.shape == (4 * (2 * 16 + 2), 4 * (3 * 16 + 4), 3)
    assert "gap 0.350 ± 0.208" in made.sentence and data.title == "Data"


class Noisy:
    """A model with one latent that counts and forty that are not used."""

    def encode(self, x):
        return torch.cat([x, torch.zeros(len(x), 40)], 1)

    def sample_codes(self, x):
        return torch.cat([x, torch.randn(len(x), 40)], 1)


def attribute_run(n=900):
    x = np.random.default_rng(0).standard_normal((n, 1))
    data = untwine.from_arrays(x, (x > 0).astype(int), names=("positive",))
    return SimpleNamespace(model=Noisy(), data=data)


def test_attributes_of_samples_suffer_from_latents_that_are_not_used():
    ask = partial(attributes, attribute_run(), sizes=[40, 400])
    means, sampled = ask(), ask(codes="sampled")
    assert means["accuracy at 40"] > sampled["accuracy at 40"] + 0.05
    assert sampled["accuracy at 400"] > sampled["accuracy at 40"]
    assert ask(codes="sampled") == sampled and ask(codes="sampled", seed=1) != sampled
    assert means["base rate"] == sampled["base rate"]


def test_the_penalty_of_attributes():
    ask = partial(attributes, attribute_run(), sizes=[300], codes="sampled")
    light, none, heavy = (ask(penalty=p)["accuracy"] for p in (1e-9, 0.0, 1e4))
    assert light == pytest.approx(none, abs=0.01) and heavy != pytest.approx(none, abs=0.01)
    assert ask(penalty=1.0) == ask()


def test_attributes_are_of_examples_that_are_held_out():
    run = attribute_run()
    apart = untwine.from_arrays(
        -np.ones((90, 1)), (np.arange(90) % 3 == 0).astype(int), names=("third",)
    )
    run.data = replace(run.data, evaluation=apart)
    assert attributes(run, sizes=[20])["base rate"] == pytest.approx(2 / 3, abs=0.15)


def test_neighbours_tell_two_samples_apart_and_codes_off_the_prior():
    first, second = np.random.default_rng(0).standard_normal((2, 1_000, 2))
    assert plane.neighbour_share(first, second) == pytest.approx(0.5, abs=0.04)
    assert plane.neighbour_share(first, second + 9) == 1.0
    assert plane.off_support(second, first) == pytest.approx(0.05, abs=0.03)
    assert plane.off_support(second + 9, first) == 1.0


def test_the_divergence_by_neighbours_is_that_of_two_gaussians():
    rng = np.random.default_rng(0)
    draws = 0.1 * rng.standard_normal((1_000, 2)) + [1.0, 0.0]
    exact = 2 * (np.log(10) + (0.01 - 1) / 2) + 0.5
    found = plane.neighbour_divergence(draws, rng.standard_normal((50_000, 2)), 2)
    assert found == pytest.approx(exact, rel=0.05)


def test_a_sphere_has_a_smaller_divergence_than_its_gaussian():
    run = finished("intel-sphere", "circle", **POINTS)
    with torch.no_grad():  # posteriors far out and narrow: the radius says much, and is lost
        bias = next(p for n, p in run.model.latents.named_parameters() if n.endswith("bias"))
        bias.copy_(torch.tensor([3.0, 0.0, -4.0, -4.0]))
    found = plane.mapped_divergence(run, examples=3, prior=5_000)
    assert 0 < found["after"] < found["before"]


def test_effective_latents_and_their_slant():
    from untwine.reproduce.appearance import slant
    from untwine.reproduce.papers.intel_vae.measures import effective_number

    assert effective_number(np.ones((2, 4))) == pytest.approx(4)
    assert effective_number(np.zeros((2, 4))) == 0
    stroke = np.eye(5)[::-1].reshape(1, 1, 5, 5)
    assert slant(stroke)[0] == pytest.approx(1) and slant(np.ones((1, 1, 5, 5)))[0] == 0
