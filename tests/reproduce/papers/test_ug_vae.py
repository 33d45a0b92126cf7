"""What batches share: kinds told apart, what moves a picture, grids and projections."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from untwine import distributions
from untwine.data.arrays import from_arrays
from untwine.datasets.digit_series import digit_stream
from untwine.datasets.mixed import MixedOrdering
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.reproduce.claims import claims_of
from untwine.reproduce.items import read_paper
from untwine.reproduce.papers.ug_vae import exhibits, measures
from untwine.reproduce.papers.ug_vae.batches import (
    batch_kinds,
    batch_source,
    group_codes,
    random_between,
    svm_accuracies,
)
from untwine.runs.directory import TrainedRun
from untwine.spec import build, build_model, plan
from untwine.study.file import at_scale
from untwine.tools.pages import Section

N = 200
RNG = np.random.default_rng(0)


def halves():
    """Dark images of level 0 and bright ones of level 1."""
    level = np.arange(N) % 2
    noise = RNG.integers(0, 40, (N, 8, 8))
    images = (noise + 200 * level[:, None, None]).astype(np.uint8)
    return from_arrays(images, np.stack([level, np.arange(N) % 10], 1), names=("domain", "digit"))


DATA = halves()


def finished(model="ug-vae", *settings):
    """A run that stopped before its first step."""
    spec = plan(model, "sprites(size=16)", settings=settings, network="mlp", latent=3, batch=16)
    built = build_model(spec, DATA, latent=3, seed=0, batch=16)
    return TrainedRun(Path(), spec, built.eval(), lambda: DATA, [], {})


UG = ("ug-vae", "shared=4", "clusters=3", "units=8")
MODELS = [UG, ("ml-vae", "content=4")]


def test_a_kind_by_level_draws_only_that_level_from_those_allowed():
    allowed = np.arange(100)
    batch = batch_source(DATA, ["colour=1", "Domain=1"], allowed).batch(20, RNG)
    assert (batch % 2 == 1).all() and (batch < 100).all() and len(set(batch)) == 20


def test_a_batch_larger_than_its_pool_repeats_images():
    assert len(batch_source(DATA, "domain=0", np.arange(10)).batch(20, RNG)) == 20


def test_a_series_is_spelt_from_some_place_of_its_ring():
    found = "".join(map(str, batch_source(DATA, "series primes").batch(300, RNG) % 10))
    assert found in 3 * "".join(map(str, digit_stream("primes")))


@pytest.mark.parametrize(
    ("description", "error"),
    [
        ("colour=1", UnknownNameError),
        ("domain", ParameterError),
        ("domain=two", ParameterError),
        ("domain=7", DataError),
    ],
)
def test_kinds_that_cannot_be_are_refused(description, error):
    with pytest.raises(error):
        batch_source(DATA, description)


def test_a_series_needs_all_its_digits():
    with pytest.raises(DataError, match="which the series needs"):
        batch_source(DATA, "series odd", np.arange(5))


@pytest.mark.parametrize("model", MODELS)
def test_codes_of_batches_are_those_of_encode_group(model):
    ours = finished(*model).model
    batches = [np.arange(16), np.arange(8, 24), np.full(16, 3)]
    each = [ours.encode_group(DATA.take(b), torch.zeros(16, dtype=torch.long)) for b in batches]
    found = torch.from_numpy(group_codes(ours, DATA, batches)).float()
    torch.testing.assert_close(found, torch.cat(each))


@pytest.mark.parametrize("model", MODELS)
def test_samples_of_shared_codes_have_the_mean_and_spread_of_the_posterior(model):
    ours = finished(*model).model
    together = torch.zeros(16, dtype=torch.long)
    latents = ours.infer_means(DATA.take(np.arange(16)), together).latents.values()
    (q,) = [latent.draw.q for latent in latents if latent.rows is not None]
    codes = group_codes(ours, DATA, [np.arange(16)] * 600, sampled=True)
    spread = q.std[0].detach().numpy()
    # the factors of UG-VAE's β depend a little on the sample of z, so its spread is a little wider
    assert np.abs(codes.mean(0) - q.mean[0].detach().numpy()).max() < 0.3 * spread.max()
    assert codes.std(0) == pytest.approx(spread, rel=0.3)
    again = group_codes(ours, DATA, [np.arange(16)] * 3, sampled=True)
    assert (again == codes[:3]).all() and (again[0] != again[1]).all()
    other = group_codes(ours, DATA, [np.arange(16)] * 3, sampled=True, seed=1)
    assert (again != other).all()


def test_a_batch_may_be_normalised_by_its_own_statistics():
    ours = build("ug-vae", DATA, network="conv-ug", latent=3, shared=4, clusters=3, units=8)
    before = {name: value.clone() for name, value in ours.named_buffers() if "running" in name}
    rows = [np.arange(16), np.arange(0, 32, 2)]
    own = group_codes(ours, DATA, rows, statistics="batch")
    assert not np.allclose(own, group_codes(ours, DATA, rows))
    assert np.allclose(own[:1], group_codes(ours, DATA, rows[:1], statistics="batch"))
    after = dict(ours.named_buffers())
    assert before and all(torch.equal(value, after[name]) for name, value in before.items())


def test_random_batches_of_a_mixture_have_its_shares():
    small, large = (from_arrays(np.zeros((n, 8, 8), np.uint8)) for n in (40, 400))
    for exact, spread in ((True, 0), (False, 32**0.5 / 2)):
        ordering = MixedOrdering(small, large, 0.5, exact)
        data = replace(from_arrays(np.zeros((440, 8, 8), np.uint8)), batch_order=ordering)
        among = np.arange(0, 440, 2)
        batches = np.stack(batch_source(data, "random", among).batches(400, 32, RNG))
        assert np.isin(batches, among).all()
        first = (batches < 40).sum(1)
        assert first.mean() == pytest.approx(16, abs=0.5)
        assert first.std() == pytest.approx(spread, abs=0.4)


def test_splits_are_averaged_and_depend_on_the_seed_of_the_run():
    kinds = {"even": "digit=0", "odd": "digit=2"}
    ask = partial(batch_kinds, kinds=kinds, learn=8, test=6, sampled=True)
    run = finished(*UG)
    three = ask(run, splits=3)
    assert three == ask(run, splits=3) and 0 <= three["rbf"] <= 1
    other = replace(run, spec=replace(run.spec, seed=7))
    assert ask(other, splits=3) != three
    assert ask(run) != three


def test_a_model_without_groups_is_refused():
    with pytest.raises(IncompatibleError, match="shares"):
        group_codes(build("vae", DATA, network="mlp"), DATA, [np.arange(4)])


def test_bright_and_dark_batches_are_told_apart_and_random_ones_add_a_kind():
    kinds = {"dark": "domain=0", "bright": "domain=1"}
    found = batch_kinds(finished(*UG), kinds=kinds, learn=8, test=4, times=3)
    assert found["linear"] == found["rbf"] == found["linear_train"] == 1
    assert found["base_rate"] == 0.5 and found["base_rate_with_random"] == 0.6


def test_kinds_that_do_not_differ_are_told_by_chance():
    codes = RNG.normal(size=(4, 100, 3))
    found = svm_accuracies([codes[:2], codes[2:]])
    assert 0.3 < found["rbf"] < 0.7 and found["base_rate"] == 0.5


def test_the_untrained_model_is_that_of_the_first_step():
    run, kinds = finished(*UG), {"even": "series even", "odd": "series odd"}
    before = batch_kinds(run, kinds=kinds, learn=4, test=2)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.zero_()
    assert batch_kinds(run, kinds=kinds, learn=4, test=2)["rbf"] == 0.5
    assert batch_kinds(run, kinds=kinds, learn=4, test=2, untrained=True) == before


def test_variance_falls_into_rows_columns_and_both():
    rows, columns = torch.tensor([[-1.0], [1.0]]), torch.tensor([[-2.0, 2.0]])
    assert measures.variances((rows + columns)[..., None]) == (1, 4, 5)
    assert measures.variances((rows * columns)[..., None]) == (0, 0, 4)


@pytest.mark.parametrize("model", MODELS)
def test_codes_are_split_into_own_and_shared(model):
    ours = finished(*model).model
    x = DATA.take(np.arange(16))
    own, common = measures.split_codes(ours, x)
    together = torch.zeros(16, dtype=torch.long)
    assert own.shape == (16, 3) and common.shape == (4,)
    images = measures.decode_split(ours, own, common.expand(16, -1))
    torch.testing.assert_close(images, ours.decode(ours.encode(x, together)))


def decoding(run, weight_of_own, weight_of_shared):
    """The run with a decoder that is bright by its first own and its first shared latent."""

    class Bright(torch.nn.Module):
        def forward(self, w):
            logit = weight_of_own * w[:, 0] + weight_of_shared * w[:, -1]
            return logit[:, None, None, None].expand(-1, 1, 8, 8)

    run.model.decoder = Bright()
    return run


@pytest.mark.parametrize(("own", "common"), [(1.0, 0.0), (0.0, 1.0)])
def test_what_the_decoder_listens_to_moves_the_picture(own, common):
    found = measures.shared_effect(decoding(finished("ml-vae", "content=4"), own, common))
    assert found["own"] == pytest.approx(own, abs=1e-5)
    assert found["shared"] == pytest.approx(common, abs=1e-5)
    assert found["nats"] > 0 and found["information"] > 0
    assert found["swap"] == pytest.approx(0, abs=0.5)
    assert found["clusters"] == common and found["ink"] == pytest.approx(common, abs=1e-5)
    if common:
        assert found["real"] > 0.999  # the own code has no effect at all
    else:
        assert found["real"] == pytest.approx(0, abs=1e-5)


def test_looks_of_faces_and_an_untrained_network():
    run = finished(*UG)
    faces = measures.shared_effect(run, looks="faces", draws=4, batches=3)
    assert {"brightness", "contrast", "colour"} < faces.keys()
    untrained = measures.shared_effect(run, looks="faces", draws=4, batches=3, untrained=True)
    assert untrained.keys() == faces.keys() and untrained["shared"] > 0


def test_random_batches_lie_between_the_two_kinds_they_are_made_of():
    kinds = {"dark": "domain=0", "bright": "domain=1"}
    found = random_between(finished("ml-vae", "content=4"), kinds=kinds, batches=8)
    assert found["position"] == pytest.approx(0.5, abs=0.15)


def test_a_shared_code_that_moves_clusters_counts_as_shared():
    """With one cluster whose mean is β the own latent is β + ε: half of the variance each."""
    run = decoding(finished("ug-vae", "shared=1", "clusters=1"), 0.01, 0.0)

    def prior(beta):
        gaussian = distributions.Gaussian(
            beta[:, None].expand(-1, 1, 3), torch.zeros(len(beta), 1, 3)
        )
        return SimpleNamespace(parts=gaussian)

    run.model.latents.prior.forward = prior
    found = measures.shared_effect(run, draws=60)
    assert found["shared"] == pytest.approx(0.5, abs=0.15)
    assert found["shared"] + found["own"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("by", ["own", "shared"])
def test_a_picture_is_carried_over_by_what_holds_the_domain(by, monkeypatch):
    run = decoding(finished(*UG), 10.0 * (by == "own"), 10.0 * (by == "shared"))

    def codes(model, x):
        sign = x.mean((1, 2, 3)).sub(0.4).sign()
        return measures.SplitCodes(sign[:, None].expand(-1, 3), sign[:1].expand(4))

    monkeypatch.setattr(measures, "split_codes", codes)
    found = measures.transfer(run, batches=2, learn=60)
    other = {"own": "by_shared", "shared": "by_own"}[by]
    assert found[f"by_{by}"] > 0.95 and found[other] == pytest.approx(0, abs=1e-6)
    assert found["classifier"] == 1 and found["first"] < 0.05 and found["second"] > 0.95
    assert found["within"] == pytest.approx(0, abs=1e-6)


def test_transfer_depends_on_the_seed_of_the_run_and_knows_the_untrained_network():
    run = finished(*UG)
    ask = partial(measures.transfer, batches=1, learn=60)
    before = ask(run)
    assert ask(replace(run, spec=replace(run.spec, seed=7))) != before
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.zero_()
    assert ask(run)["by_own"] == 0
    assert ask(run, untrained=True) == before


def test_the_classifier_of_domains_is_tested_on_images_it_has_not_seen():
    noise = RNG.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    data = from_arrays(noise, (np.arange(60) % 2)[:, None], names=("domain",))
    run = replace(finished("ml-vae", "content=4"), open_data=lambda: data)
    assert measures.transfer(run, batches=1, learn=100)["classifier"] < 0.8


@pytest.mark.parametrize("model", MODELS)
def test_the_middle_of_a_grid_is_the_mean_of_the_cluster(model):
    ours = finished(*model).model
    images = exhibits.cluster_grid(ours, 0, reach=1, local=3)
    centre = ours.latents.own_prior(torch.zeros(1, 4)).mean[:, 0]
    middle = measures.decode_split(ours, centre, torch.zeros(1, 4))
    assert images.shape == (7, 7, 1, 8, 8)
    torch.testing.assert_close(images[3, 3], middle[0])


def test_an_interpolation_begins_and_ends_at_the_images_as_reconstructed():
    run = finished(*UG)
    images, ends = exhibits.interpolate(run, ["domain=0", "domain=1"], seed=0)
    assert ends.shape == (2, 1, 8, 8) and ends[0].mean() < 0.2 < 0.7 < ends[1].mean()
    assert images.shape == (7, 7, 1, 8, 8)
    assert not torch.equal(images[0, 0], images[-1, 0])  # β alone moves pictures
    assert not torch.equal(images[0, 0], images[0, -1])  # and so does z


class MadeUpEvidence:
    """As much evidence as an exhibit asks for."""

    def __init__(self, run, table=None):
        self.run, self.rows = run, table

    def has(self, study, description):
        return description == "ours"

    def open_model(self, study, description, seed):
        return self.run

    def heading(self, study):
        return "squares"

    def select(self, study, description=""):
        return self.rows

    table = select


RUNS = {"Ours": "ours", "Absent": "absent"}
ZOOM = 7  # images of 8 pixels are drawn with 56


def test_grids_tell_how_full_their_clusters_are():
    table = pd.DataFrame({"effect.ink": [0.1, 0.3], "effect.slant": [0.4, 0.4]})
    looks = {"ink": "effect.ink", "slant": "effect.slant"}
    (section,) = exhibits.global_by_local(
        MadeUpEvidence(finished(*UG), table), study="s", runs=RUNS, looks=looks
    )
    size = (7 * 10 - 2, 3 * (7 * 10 - 2) + 2 * exhibits.GRID_GAP)
    assert section.picture.shape == (*(ZOOM * n for n in size), 3)
    assert "clusters, row by row, hold" in section.sentence
    assert section.sentence.endswith("governs 40 % of the slant, 20 % of the ink.")


def test_grids_of_a_model_without_clusters_do_not_speak_of_them():
    run = finished("ml-vae", "content=4")
    (section,) = exhibits.global_by_local(MadeUpEvidence(run), study="s", runs=RUNS)
    assert section.picture.shape[1] == 68 * ZOOM and "cluster" not in section.sentence


@pytest.mark.parametrize("public", [True, False])
def test_interpolations_stand_side_by_side_below_their_ends(public, monkeypatch):
    monkeypatch.setattr(exhibits, "may_be_shown", lambda data: public)
    between = {"over": ["domain=0", "domain=1"], "within": ["domain=1", "domain=1"]}
    table = pd.DataFrame({"transfer.by_shared": [0.0, 0.02], "transfer.by_own": [0.9, 1.0]})
    (section,) = exhibits.shared_interpolations(
        MadeUpEvidence(finished(*UG), table),
        study="s",
        runs=RUNS,
        between=between,
        moved={"β": "transfer.by_shared", "z": "transfer.by_own"},
    )
    size = (8 + exhibits.GRID_GAP + 68, 2 * 68 + exhibits.GRID_GAP)
    assert section.picture.shape[:2] == tuple(ZOOM * n for n in size)
    picture = section.picture[::ZOOM, ::ZOOM]
    assert (picture[:8, 8:60] == 255).all()  # between the two ends above a grid
    corner = picture[8 + exhibits.GRID_GAP :][:8, :8]  # the first image as reconstructed
    assert (picture[:8, :8] == corner).all() != public
    assert section.shows_data == public
    assert ("reconstructions of the two images" in section.sentence) != public
    assert "From left to right: over; within" in section.sentence
    assert "moving β adds 0.01 and z adds 0.95 to the probability" in section.sentence


def test_only_data_whose_licences_allow_it_is_shown():
    assert exhibits.may_be_shown("mixed(first=coloured-mnist(of=digits), second=faces)")
    assert not exhibits.may_be_shown("grouped(of=mixed(first=celeba(size=32), second=faces))")
    assert not exhibits.may_be_shown("mixed(first=cars3d, second=cars)")


def test_a_controlled_table_has_rows_of_untrained_networks(monkeypatch):
    def table(evidence, *, study, columns, rows, title):
        body = tuple((name, *columns.values()) for name in rows)
        yield Section("table", title, "", header=("", *columns), rows=body)

    monkeypatch.setattr(exhibits, "table", table)
    columns = {"pixels": "100 * effect.shared", "swap": "effect.swap"}
    (section,) = exhibits.controlled_table(
        None, study="s", label="effect", columns=columns, rows={"Ours": {"runs": "ours"}}
    )
    assert section.header == ("", "pixels", "swap")
    assert section.rows == (
        ("Ours", "100 * effect.shared", "effect.swap"),
        ("Ours, untrained", "100 * effect-untrained.shared", "effect-untrained.swap"),
    )


def test_verdicts_of_ug_vae_come_from_new_seeds_and_every_claim_has_a_place():
    paper = read_paper("ug-vae")
    for name in paper["studies"]:
        seeds = at_scale(paper.study(name), "laptop").content["seeds"]
        assert seeds == list(range(100, 100 + len(seeds)))
        assert len(seeds) == 1 if name == "domains-long" else len(seeds) >= 5
    assert all(claim.place for claim in claims_of(paper))
    assert all({"says", "gave", "why"} == set(entry) for entry in paper["dropped"])


def test_projections_show_every_kind_and_the_way_between_two():
    kinds = {"Panel": {"random": "random", "dark": "domain=0", "bright": "domain=1"}}
    (section,) = exhibits.group_projection(
        MadeUpEvidence(finished(*UG)),
        study="s",
        runs=RUNS,
        kinds=kinds,
        batches=5,
        path=["dark", "bright"],
    )
    (axis,) = section.figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == list(kinds["Panel"])
    assert [len(c.get_offsets()) for c in axis.collections] == [5, 5, 5]
    assert len(axis.lines[0].get_xdata()) == exhibits.GRID_STEPS


def test_projections_keep_what_is_near_together():
    far = np.repeat([[0.0, 0.0], [50.0, 50.0]], 20, 0) + RNG.normal(size=(40, 2))
    xy = exhibits.project_tsne(far)
    own = np.linalg.norm(xy[:20] - xy[:20].mean(0), axis=1).max()
    assert np.linalg.norm(xy[:20].mean(0) - xy[20:].mean(0)) > own
    assert np.array_equal(xy, exhibits.project_tsne(far))


def test_the_table_of_batches_has_the_papers_numbers_and_the_base_rate():
    import pandas as pd

    scores = {f"hair.{k}{e}": [0.9, 0.8] for k in ("linear", "rbf") for e in ("", "_train")}
    table = pd.DataFrame({**scores, "hair.base_rate": 0.5, "seed": [0, 1]})
    rows = {"hair": {"label": "hair", "paper": {"rbf": [1.0, 0.98]}}}
    (section,) = exhibits.batch_table(MadeUpEvidence(None, table), study="s", runs=RUNS, rows=rows)
    linear, rbf = section.rows
    assert len(linear) == len(section.header) and linear[2] == "–"
    assert rbf == ("hair", "RBF", "1.0", "0.850 ± 0.071", "0.98", "0.850 ± 0.071", "0.50", "–")
