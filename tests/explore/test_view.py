"""What can be seen of a run: of every kind of model, from any thread, with clear refusals."""

import base64
import io
import math
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import untwine
from untwine.errors import DataError, IncompatibleError, ParameterError
from untwine.explore import measuring, spaces, uploads
from untwine.explore.memo import Memo
from untwine.explore.plane import Plane
from untwine.explore.view import RunView
from untwine.latents import central_range
from untwine.records import Draw
from untwine.runs.directory import open_run
from untwine.scoring import latents
from untwine.scoring.codes import outliers
from untwine.tools.compute import seeded
from untwine.tools.images import to_bytes

SPRITES, DIGITS = ("sprites", ["size=16"]), ("digits", ["size=16", "digits.split=test"])
KINDS = {
    "sparse": ("intel-sparse", *SPRITES, []),
    "levels": ("intel-hierarchical", *SPRITES, []),
    "sphere": ("intel-sphere", *SPRITES, []),
    "flow": ("sylvester", *SPRITES, []),
    "gated": ("vsc", *SPRITES, []),
    "vamp": ("vamp-prior", *DIGITS, ["components=4"]),
    "mixture": ("mog-prior", *DIGITS, ["components=3"]),
    "outliers": ("tgm-vae", *DIGITS, ["clusters=2"]),
    "sectors": ("intel-clusters", *DIGITS, ["clusters=3"]),
    "content": ("ml-vae", "grouped", ["of=sprites(size=16)"], []),
    "batches": ("ml-vae", *SPRITES, ["whole_batch=true"]),
    "nested": ("nested-vae", "grouped", ["of=sprites(size=16)", "members=2"], []),
    "noisy": ("vae", "noisy-dsprites", ["size=16"], []),
    "points": ("vae", "clusters", ["count=400"], []),
}
CLUSTERS = {"mixture": 3, "outliers": 3, "sectors": 3, "clustered": 3, "grouped": 2}
SHARED = {"content": 4, "batches": 4, "grouped": 3}
TRAINED = ("plain", "clustered", "grouped")
every_kind = pytest.mark.parametrize("kind", [*TRAINED, *KINDS])


def trained(out, model, data, settings, latent=4, steps=20):
    numbers = {"latent": latent, "batch": 16, "steps": steps, "lr": 1e-3}
    spec = untwine.plan(model, data, network="mlp", settings=[*settings, "width=32"], **numbers)
    return untwine.run(spec, out, quiet=True, threads=1)


@pytest.fixture(scope="session")
def looks(explored, tmp_path_factory):
    """Looks by kind, made on first use."""
    out, made = tmp_path_factory.mktemp("looks"), {}

    def look(kind):
        if kind not in made:
            if kind in TRAINED:
                path = explored[1][kind]
            else:
                model, data, of_data, of_model = KINDS[kind]
                path = trained(out, model, data, [*of_data, *of_model])
            made[kind] = RunView(open_run(path), name=kind, examples=70)
        return made[kind]

    return look


def opened(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def of_address(address):
    return opened(base64.b64decode(address.removeprefix("data:image/png;base64,")))


def file_of(image, kind="PNG", **how):
    stream = io.BytesIO()
    image.save(stream, kind, **how)
    return stream.getvalue()


@every_kind
def test_every_kind_shows_its_latents(looks, kind):
    look = looks(kind)
    facts = look.summary()
    numbers = [latent.number for latent in facts.latents]
    assert sorted(numbers) == list(range(len(look.start_from_prior(0).code)))
    order = [(not latent.active, -latent.nats) for latent in facts.latents]
    assert order == sorted(order)
    assert all(math.isfinite(latent.nats) and latent.nats >= 0 for latent in facts.latents)
    assert all(latent.low < latent.high for latent in facts.latents)
    assert (facts.clusters, facts.shared) == (CLUSTERS.get(kind, 0), SHARED.get(kind, 0))
    assert facts.examples == 70 and facts.title and facts.about.endswith(".")


@every_kind
def test_every_kind_shows_its_pictures(looks, kind):
    look = looks(kind)
    height, width = look.summary().tile
    (a, b), prior = (e.index for e in look.examples(2, 0)), look.start_from_prior(1)
    for png, rows, columns in (
        (look.image(a), 1, 1),
        (look.decode(look.start_from(a).code), 1, 1),
        (look.decode(prior.code), 1, 1),
        (look.reconstruction(a), 1, 1),
        (look.traversals(prior.code, [1, 0], 3), 2, 3),
        (look.between(a, b, 5), 1, 5),
        (look.sheet(70), 3, 32),
    ):
        assert opened(png).shape[:2] == (rows * height, columns * width)


@every_kind
def test_every_kind_shows_its_space(looks, kind):
    look = looks(kind)
    for by in ("latents", "pca"):
        space = look.space(by, 0, 1)
        assert len(space.index) == len(space.x) == len(space.y) == 70
        assert all(len(c.levels) == 70 and max(c.levels) < c.count for c in space.colourings)
    told = look.select(space.index[:5])
    assert told.count == 5 and of_address(told.picture).shape[:2] == tuple(look.summary().tile)
    table = look.factors()
    assert np.shape(table.matrix) == (len(table.latents), len(table.factors))


def test_a_start_decodes_to_the_reconstruction(looks):
    for kind in ("plain", "sparse", "grouped"):
        look = looks(kind)
        for index in (look.examples(1, 3)[0].index, 7):  # of the sample, and not
            assert look.decode(look.start_from(index).code) == look.reconstruction(index)


def test_pictures_are_those_of_the_model(looks):
    look = looks("sparse")
    model, data = look.trained.model, look.data
    x = data.take([5])
    for png, expected in ((look.image(5), x), (look.reconstruction(5), model.reconstruct(x))):
        assert np.abs(opened(png) / 255 - expected[0, 0].numpy()).max() < 0.01
    code, facts = look.start_from(5).code, {one.number: one for one in look.summary().latents}
    moved = torch.linspace(facts[2].low, facts[2].high, 4)
    row = model.traverse(x[0], moved, [2])[0, :, 0].numpy()
    found = opened(look.traversals(code, [2], 4)).reshape(16, 4, 16).transpose(1, 0, 2)
    assert np.abs(found / 255 - row).max() < 0.01


def test_a_batch_that_is_one_group_is_encoded_as_one(looks):
    look = looks("grouped")
    model, batch = look.trained.model, look.shared_model.batch
    others = look.data.take(look.index[:batch])
    assert (
        look.shared_model.layout.whole_batch
        and not looks("content").shared_model.layout.whole_batch
    )
    assert np.allclose(look.code(int(look.index[0])), model.posterior_mean(others)[0], atol=1e-5)
    beside = torch.cat([look.data.take([9]), others[: batch - 1]])
    assert np.allclose(look.code(9), model.posterior_mean(beside)[0], atol=1e-5)


def test_nats_are_the_divergence_from_the_prior(looks):
    look = looks("plain")
    mean = look.shared_model.measure(look.index)
    with torch.no_grad(), seeded(0):
        batch = look.trained.model.as_batch(look.data.take(look.index))
        latent = look.trained.model.infer(batch, mean=True).latents["z"]
    assert np.allclose(mean.nats, latent.draw.q.kl_per_dim().mean(0), atol=1e-5)


def test_nats_of_samples_are_what_a_channel_carries(looks, monkeypatch):
    shared_model = looks("flow").shared_model
    known = Known(torch.tensor([1.0, 1.0, 1.0, 1e-3]))
    monkeypatch.setitem(shared_model.model.latents._modules, "posterior", known)
    nats = shared_model.measure(np.arange(512)).nats
    assert (np.abs(nats[:3] - math.log(2) / 2) < 0.1).all()
    assert abs(nats[3] - math.log(1000)) < 0.2


class Known(torch.nn.Module):
    """A posterior with samples only: means of spread 1, and noise of known size."""

    def __init__(self, noise):
        super().__init__()
        self.noise = noise

    def forward(self, h):
        with seeded(int(1e6 * h.abs().sum())):  # the same for the same examples
            mean = torch.randn(len(h), 4)
        return Draw(mean + self.noise * torch.randn(len(h), 4), mean, log_density=h[:, 0])


def test_noise_depends_on_the_example_alone(looks):
    look = looks("noisy")
    state = torch.get_rng_state()
    first = look.image(11)
    torch.manual_seed(3)
    assert look.image(11) == first != look.image(12)
    alone, among = look.shared_model.take([11]), look.shared_model.take([3, 11, 5])
    assert torch.equal(alone[0], among[1])
    torch.set_rng_state(state)


def ordered(look, order, count=100, **how):
    return look.reconstructions(count, order, **how).examples


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A run on a folder of bright squares, in which two pictures of noise are hidden."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for k in range(200):
        pixels = np.zeros((16, 16), np.uint8)
        across, down = rng.integers(1, 9, 2)
        pixels[down : down + 6, across : across + 6] = 220
        Image.fromarray(pixels).save(folder / f"square-{k:03}.png")
    for k in (3, 8):
        noise = rng.integers(0, 256, (16, 16), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"noise-{k}.png")
    path = trained(tmp_path_factory.mktemp("runs"), "vae", str(folder), [], steps=150)
    return RunView(open_run(path), name="photos", examples=50)


def test_outliers_come_first_by_their_file_names(photos):
    photos.measures.wait()
    first = ordered(photos, "unlikely", 2)
    assert {one.name for one in first} == {"noise-3.png", "noise-8.png"}
    table = outliers(photos.trained.model, photos.data)
    assert [one.name for one in ordered(photos, "unlikely")] == list(table["example"][:100])
    assert math.isclose(first[0].log_likelihood, table["log_likelihood"][0], rel_tol=1e-4)


def test_all_examples_are_ordered_not_only_the_sample(photos):
    photos.measures.wait()
    answer = photos.reconstructions(100, "worst")
    assert answer.count == answer.progress.done == answer.progress.total == 202
    assert not answer.progress.running
    rest = ordered(photos, "worst", start=100) + ordered(photos, "worst", start=200)
    errors = [one.error for one in [*answer.examples, *rest]]
    assert len(errors) == 202 and errors == sorted(errors, reverse=True)
    large = {"far": "distance", "informative": "kl", "likely": "log_likelihood"}
    small = {"near": "distance", "uninformative": "kl", "best": "error"}
    for order, name in (large | small).items():
        sign = 1 if order in small else -1
        values = [sign * getattr(one, name) for one in ordered(photos, order)]
        assert values == sorted(values)
    assert [one.index for one in ordered(photos, "data", 3, start=7)] == [7, 8, 9]


def test_measured_examples_are_kept_on_disk(photos, monkeypatch):
    photos.measures.wait()
    again = RunView(photos.trained, name="again", examples=50)
    assert again.measures.done == 202  # read, without a thread
    assert ordered(again, "unlikely", 9) == ordered(photos, "unlikely", 9)


def test_few_examples_of_large_data_are_measured_unless_all_are_asked_for(
    looks, monkeypatch, tmp_path
):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))  # nothing is kept there yet
    monkeypatch.setattr(measuring, "N_AT_ONCE", 150)
    look = RunView(looks("points").trained, name="large", examples=70)
    look.measures.wait()
    progress = look.progress()
    assert (progress.done, progress.target, progress.total) == (150, 150, 400)
    known = {one.index for one in ordered(look, "worst") + ordered(look, "worst", start=100)}
    assert len(known) == 150 and set(look.index.tolist()) <= known  # the sample first
    assert look.measure_all().target == 400
    look.measures.wait()
    assert look.progress().done == 400


def test_the_order_of_reconstructions(looks):
    look = looks("points")
    look.measures.wait()
    worst, best = ordered(look, "worst", 5), ordered(look, "best", 5)
    index = worst[0].index
    gap = look.trained.model.reconstruct(look.data.take([index])) - look.data.take([index])
    assert math.isclose(float(gap.square().mean()), worst[0].error, rel_tol=1e-3)
    assert best[0].error < worst[-1].error
    assert ordered(look, "random", 5, seed=1) != ordered(look, "random", 5, seed=2)
    assert set(worst[0].levels) == set(look.data.factors.names)


def test_examples_that_share_latents_have_no_likelihoods(looks):
    look = looks("content")
    look.measures.wait()
    answer = look.reconstructions(5, "worst")
    assert look.summary().measures == ["error", "distance"]
    assert looks("points").summary().measures == ["log_likelihood", "kl", "error", "distance"]
    assert answer.count == 70 and answer.examples[0].log_likelihood is None
    assert answer.examples[0].error >= answer.examples[1].error > 0


@pytest.mark.parametrize("kind", CLUSTERS)
def test_clusters_have_members_and_draws(looks, kind):
    look = looks(kind)
    clusters = look.clusters()
    assert [one.number for one in clusters] == list(range(CLUSTERS[kind]))
    assert math.isclose(sum(one.share for one in clusters), 1)
    fullest = max(clusters, key=lambda one: one.share)
    x = look.data.take(fullest.members)
    assert set(look.shared_model.assign(x)) == {fullest.number}
    colouring = look.space("latents", 0, 1).colourings[-1]
    assert colouring.name == "cluster" and colouring.count == CLUSTERS[kind]
    for number in range(CLUSTERS[kind]):
        try:
            width = opened(look.cluster(number, 0, 4)).shape[1]
        except IncompatibleError as error:
            assert f"draws from its prior to cluster {number}" in str(error)
        else:
            assert 16 <= width <= 64


def test_clusters_agree_with_the_model(looks):
    for kind in ("sectors", "clustered", "outliers"):
        look = looks(kind)
        x = look.data.take(look.index)
        assert np.array_equal(look.statistics().clusters, look.trained.model.assign(x))
    assert looks("outliers").clusters()[-1].most[0].startswith("outliers")


def test_groups_cross_what_is_shared_with_what_is_own(looks):
    for kind in SHARED:
        look = looks(kind)
        grid = opened(look.groups(0, 0, 3, 4))
        assert grid.shape[:2] == (48, 64)
        assert look.groups(0, 0, 3, 4) == look.groups(0, 0, 3, 4) != look.groups(0, 1, 3, 4)
    assert look.groups(1, 0, 2, 2) != look.groups(0, 0, 2, 2)
    with pytest.raises(ParameterError, match="there is no 2"):
        look.groups(2, 0, 2, 2)


def test_neighbours_are_the_same_at_every_call(looks):
    look = looks("points")
    space = look.space("tsne", 0, 1)
    assert space.across == "t-SNE 1" and np.isfinite(space.x).all()
    again = RunView(look.trained, name="again", examples=70)
    assert again.space("tsne", 5, 5) == space
    one = spaces.tsne_coordinates(np.arange(9.0)[:, None], np.ones(1), 0.05)
    assert one.shape == (9, 2) and np.isfinite(one).all()


def test_a_selection_is_told_apart(looks):
    look = looks("points")
    cluster = look.sampled_levels()[:, 0]
    chosen = look.index[cluster == 1].tolist()
    told = look.select([*chosen, chosen[0]])
    assert told.count == len(chosen)
    first = told.factors[0]
    assert (first.factor, first.level, first.share) == ("cluster", 1, 1)
    away = [abs(one.deviations) for one in told.latents]
    assert away == sorted(away, reverse=True) and away[0] > 0.5
    whole = look.select(look.index.tolist())
    assert (whole.factors, whole.latents) == ([], [])
    with pytest.raises(ParameterError, match="not among the points"):
        look.select([next(i for i in range(400) if i not in look.row_of)])
    with pytest.raises(ParameterError, match="no point"):
        look.select([])


def test_scores_stand_beside_their_references(looks):
    table = looks("plain").factors()
    scores = {line.name: line for line in table.scores}
    assert set(scores["mig"].references) == {"perfect", "rotated", "random"}
    assert (scores["mig"].title, scores["mig"].better) == ("Mutual information gap", "higher")
    assert scores["reconstruction.squared_error"].better == "lower"
    assert scores["reconstruction.squared_error"].title.endswith(": squared error")
    assert scores["reconstruction.cross_entropy"].better == ""
    assert not table.note


def test_damaged_scores_leave_the_table(looks, tmp_path):
    look = RunView(replace(looks("plain").trained, path=tmp_path), name="plain", examples=70)
    assert not look.factors().note and not look.factors().scores
    shutil.copy(looks("plain").trained.path / "done.json", tmp_path)
    (tmp_path / "scores.json").write_text("{")
    found = look.factors()
    assert found.matrix and not found.scores
    assert found.note.startswith("The scores cannot be read: ") and "damaged" in found.note


def test_what_latents_know_is_beyond_chance():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [4, 32], size=(600, 2))
    codes = np.stack([factors[:, 0] + 0.01 * rng.random(600), rng.random(600)], 1)
    found = latents.factor_shares(codes, factors)
    assert found[0, 0] > 0.99 and found[0, 1] < 0.03 and (found[1] < 0.03).all()
    constant = latents.factor_shares(codes, np.zeros((600, 1), np.int64))
    assert not constant.any()


def test_sliders_reach_as_far_as_codes_and_prior():
    rng = np.random.default_rng(0)
    wide, narrow = rng.normal(10, 2, (2000, 1)), rng.normal(3, 0.01, (2000, 1))
    prior = rng.standard_normal((2000, 1))
    assert spaces.slider_range([*map(central_range, (wide, prior))]) == ([-2.5], [14.5])
    (low,), (high,) = spaces.slider_range([central_range(narrow)])
    assert 2.9 <= low < 3 < high <= 3.1
    assert spaces.slider_range([([1.0], [1.0])]) == ([0.5], [1.5])


def test_the_plane_of_points():
    plane = Plane(np.array([[0.0, 0.0], [4.0, 1.0]]))
    right, left = plane.dots(np.array([[4.0, 0.5], [0.0, 0.5]]))
    (row, column), (_, other) = (np.argwhere(dot[0] > 0.99).mean(0) for dot in (right, left))
    assert column > other and abs(row - 23.5) < 1
    outside = plane.dots(np.array([[100.0, 100.0], [np.nan, 0.0]]))
    assert (outside.max((1, 2, 3)) > 0.99).all()


def test_pixels_that_are_no_numbers_are_dark():
    odd = np.array([np.nan, np.inf, -np.inf, 0.5])
    assert to_bytes(odd).tolist() == [0, 255, 0, 128]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_any_picture_fits(mode):
    image = Image.new("RGB", (40, 20), (255, 0, 0))
    image.paste((0, 255, 0), (10, 0, 30, 20))
    image = image.convert("L").convert(mode) if mode[0] in "IF" else image.convert(mode)
    kind = "TIFF" if mode[0] in "IFC" else "PNG"
    for shape in ((1, 16, 16), (3, 16, 16), (4, 10, 30)):
        x, note = uploads.fit_to_model(file_of(image, kind), torch.Size(shape))
        assert x.shape == shape and 0 <= x.min() <= x.max() <= 1
        assert "cropped to its middle" in note and note.endswith(".")


def test_a_deep_picture_is_not_held_in_double_precision():
    content = file_of(Image.new("I;16", (3000, 3000), 40_000), "PNG")
    tracemalloc.start()
    try:
        x, _ = uploads.fit_to_model(content, torch.Size((1, 16, 16)))
        assert tracemalloc.get_traced_memory()[1] < 6 * 3000 * 3000
    finally:
        tracemalloc.stop()
    assert torch.allclose(x, torch.tensor(round(40_000 / 65_535 * 255) / 255))


def test_an_upload_is_turned_cropped_and_told(looks):
    image = Image.new("RGB", (60, 100), "white")
    image.paste("black", (0, 0, 60, 50))
    exif = Image.Exif()
    exif[274] = 6  # lies on its side
    look = looks("plain")
    start = look.start_from_upload(file_of(image, "JPEG", exif=exif))
    assert start.note == (
        "The picture was turned upright, cropped to its middle, made grey and resized from 60 × 60 "
        "to 16 × 16 pixels."
    )
    shown = of_address(start.picture)
    assert shown.shape == (16, 16) and shown[:, :6].min() > 200 and shown[:, 10:].max() < 50
    assert len(start.code) == 5 and look.decode(start.code)


def test_a_picture_that_fits_is_left_alone(looks):
    look = looks("plain")
    start = look.start_from_upload(look.image(4))
    assert start.note == "" and np.allclose(start.code, look.start_from(4).code, atol=0.02)
    assert np.array_equal(of_address(start.picture), opened(look.image(4)))


def bomb():
    """A small file that says it has more pixels than anyone wants."""
    large = Image.new("1", (20_000, 20_000))
    return file_of(large)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"GIF89a but no more", "damaged|not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (b"%PDF-1.4", "not a picture"),
        (file_of(Image.new("RGB", (9, 9)), "ICO"), "not a picture"),
        (file_of(Image.effect_noise((50, 50), 90))[:900], "damaged"),
        (file_of(Image.new("1", (8000, 6000))), "8000 × 6000 pixels"),
        (bomb(), "pixels; choose one of at most 40 million"),
    ],
    ids=["nothing", "gif", "svg", "pdf", "icon", "cut", "large", "bomb"],
)
def test_other_uploads_are_refused(looks, content, told):
    with pytest.raises(DataError, match=told):
        looks("plain").start_from_upload(content)


def test_what_cannot_be_is_refused(looks):
    look, code = looks("plain"), [0.0] * 5
    for call, told in (
        (lambda: look.image(len(look.data)), "examples of this data are 0 to"),
        (lambda: look.start_from(-1), "there is no -1"),
        (lambda: look.decode([0.0] * 4), "5 numbers, not 4"),
        (lambda: look.decode([0.0] * 4 + [math.nan]), "between -100 and 100"),
        (lambda: look.decode([0.0] * 4 + [101.0]), "between -100 and 100"),
        (lambda: look.traversals(code, [5], 3), "latents are 0 to 4"),
        (lambda: look.traversals(code, [], 3), "no latent is named"),
        (lambda: look.traversals(code, [0], 1), "at least 2 steps"),
        (lambda: look.traversals(code, [0], 10**7), "too many for one picture"),
        (lambda: look.between(0, 1, 1), "at least 2 steps"),
        (lambda: look.space("latents", 0, 5), "there is no 5"),
        (lambda: look.space("pca", 9, 0), "main directions are 0 to 4"),
        (lambda: look.space("umap", 0, 1), "latents, pca or tsne"),
        (lambda: look.examples(0, 0), "at least 1"),
        (lambda: look.start_from_prior(-1), "a seed must be"),
        (lambda: looks("clustered").cluster(3, 0, 4), "clusters are 0 to 2"),
    ):
        with pytest.raises(ParameterError, match=told):
            call()
    for call, told in (
        (lambda: look.clusters(), "no clusters"),
        (lambda: look.cluster(0, 0, 4), "no clusters"),
        (lambda: look.groups(0, 0, 2, 2), "no latents that a group shares"),
        (lambda: looks("points").start_from_upload(look.image(0)), "takes vectors"),
    ):
        with pytest.raises(IncompatibleError, match=told):
            call()


def test_vectors_have_facts_and_space_but_no_pictures(tmp_path):
    np.save(tmp_path / "three.npy", np.random.default_rng(0).normal(size=(90, 3)))
    path = trained(tmp_path / "runs", "vae", str(tmp_path / "three.npy"), [], latent=1)
    look = RunView(open_run(path), name="three")
    facts = look.summary()
    assert (facts.shape, facts.tile, facts.examples) == ([3], [], 90)
    start = look.start_from(3)
    assert start.picture == "" and look.select(look.index[:4].tolist()).picture == ""
    assert look.reconstructions(3, "worst").examples and look.factors().matrix == []
    assert look.space("latents", 0, 0).x == look.space("latents", 0, 0).y
    alone = look.space("pca", 0, 1)
    assert alone.x == look.space("latents", 0, 0).x and len(set(alone.y)) == 90
    assert "only one latent" in alone.up
    for call in (
        lambda: look.image(0),
        lambda: look.decode(start.code),
        lambda: look.traversals(start.code, [0], 3),
        lambda: look.between(0, 1, 3),
        lambda: look.reconstruction(0),
        look.sheet,
    ):
        with pytest.raises(IncompatibleError, match="3 numbers, which have no picture"):
            call()


def test_colours_are_kept(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
    np.save(tmp_path / "colours.npy", images)
    path = trained(tmp_path / "runs", "vae", str(tmp_path / "colours.npy"), [])
    look = RunView(open_run(path), name="colours")
    assert np.array_equal(opened(look.image(7)), images[7])
    sheet = opened(look.sheet())
    assert sheet.shape == (12, 160, 3)
    assert np.array_equal(sheet[6:12, 5:10], images[look.index[33]])


def test_many_threads_see_the_same(looks):
    look = RunView(looks("noisy").trained, name="threads", examples=60)
    other = RunView(looks("grouped").trained, name="others", examples=60)
    index = int(look.index[0])
    tasks = [
        look.summary,
        lambda: look.image(index),
        lambda: look.start_from(index),
        lambda: look.start_from_prior(3),
        lambda: other.groups(0, 0, 2, 2),
        lambda: other.start_from(5),
        lambda: other.space("pca", 0, 1),
    ]
    alone = [task() for task in tasks]
    look.memo, other.memo = Memo(8), Memo(8)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda task: task(), tasks * 6))
    assert found == alone * 6


def test_a_result_is_computed_once_for_all_who_wait():
    kept, calls = Memo(2), []

    def slow():
        calls.append(None)
        return sum(range(200_000))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: kept("sum", slow), range(16)))) == 1
    assert len(calls) == 1
    kept("b", lambda: 1), kept("c", lambda: 1)
    kept("sum", slow)
    assert len(calls) == 2  # only two are kept


def test_what_fails_is_tried_again():
    kept = Memo(2)
    with pytest.raises(ZeroDivisionError):
        kept("odd", lambda: 1 // 0)
    assert kept("odd", lambda: 5) == 5
    assert kept("outer", lambda: 1 + kept("inner", lambda: 1)) == 2
