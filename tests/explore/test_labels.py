"""Conditional runs in the explorer: the levels of labels end a code, and a menu sets them."""

import io
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import untwine
from untwine.errors import ParameterError
from untwine.explore.gallery import Gallery
from untwine.explore.server import application
from untwine.explore.view import RunView
from untwine.tools.images import tiles_png, to_bytes


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    run = untwine.train_run(
        *("vae+conditional", "digits(size=16,split=test)", tmp_path_factory.mktemp("labels")),
        **{"on": "digit", "network": "mlp(width=16)", "latent": 3, "steps": 60, "batch": 16},
        **{"lr": 1e-3, "quiet": True},
    )
    return RunView(run, name="labels", examples=40)


def picture(images):
    return tiles_png(to_bytes(images.numpy())[None])


def test_the_summary_has_the_labels(view):
    (label,) = view.summary().labels
    assert label.name == "digit" and label.levels == [str(d) for d in range(10)]
    assert len(view.summary().latents) == 3


def test_codes_of_examples_end_with_their_label(view):
    index, data = int(view.index[3]), view.trained.data
    *z, level = view.start_from(index).code
    assert level == data.factors.levels_at(np.array([index]))[0, 0]
    model = view.trained.model.given_data(data, [index])
    assert np.allclose(z, model.encode(data.take([index]))[0], atol=1e-6)
    assert view.reconstruction(index) == picture(model.reconstruct(data.take([index])))


def test_a_code_is_decoded_with_its_label(view):
    z = torch.zeros(1, 3)
    model = view.trained.model
    pictures = [view.decode([0.0, 0.0, 0.0, level]) for level in range(10)]
    for level, made in enumerate(pictures):
        assert made == picture(model.given(digit=level).decode_latents(z))
    assert len(set(pictures)) > 1
    view.traversals([0.0, 0.0, 0.0, 7.0], [0, 2], 5)
    assert view.start_from_prior(13).code[-1] == 3


@pytest.mark.parametrize("level", [10, -1, 2.5])
def test_levels_that_do_not_exist_are_refused(view, level):
    with pytest.raises(ParameterError, match="the levels of digit are 0 to 9"):
        view.decode([0.0, 0.0, 0.0, level])
    with pytest.raises(ParameterError, match="has 4 numbers, not 3"):
        view.decode([0.0, 0.0, 0.0])


def test_a_picture_is_encoded_with_the_label_that_is_named(view):
    content = io.BytesIO()
    Image.fromarray(np.eye(16, dtype=np.uint8) * 255).save(content, "png")
    codes = [view.start_from_upload(content.getvalue(), levels).code for levels in ([], [4])]
    assert [code[-1] for code in codes] == [0, 4] and codes[0][:3] != codes[1][:3]


def test_every_view_works(view):
    assert len(view.reconstructions(5, "worst", 0).examples) == 5
    assert len(view.space("pca", 0, 1).index) == len(view.index)
    view.between(int(view.index[0]), int(view.index[1]), 4)
    assert len(view.factors().matrix) == 3
    view.require_usable()


def test_a_path_between_two_labels_shows_no_other_label(view):
    data, model = view.trained.data, view.trained.model
    levels = data.factors.levels_at(view.index)[:, 0]
    first, last = (int(view.index[np.flatnonzero(levels == level)[0]]) for level in (1, 8))
    codes = np.linspace(view.code(first)[:3], view.code(last)[:3], 5).astype(np.float32)
    images = model.given(digit=[1, 1, 8, 8, 8]).decode_latents(torch.from_numpy(codes))
    assert view.between(first, last, 5) == picture(images)


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    """A run whose codes depend on labels and on the rest of the batch."""
    run = untwine.train_run(
        *("ug-vae+conditional", "digits(size=16,split=test)", tmp_path_factory.mktemp("batched")),
        **{"on": "digit", "network": "mlp(width=16)", "latent": 3, "steps": 30, "batch": 8},
        **{"shared": 2, "clusters": 2, "units": 8, "lr": 1e-3, "quiet": True},
    )
    return RunView(run, name="batched", examples=20)


def test_the_rest_of_a_batch_keeps_its_own_labels(batched):
    data, model = batched.trained.data, batched.trained.model
    outside = next(k for k in range(len(data)) if k not in batched.row_of)
    rows = [outside, *batched.index[:7].tolist()]
    levels = data.factors.levels_at(np.array(rows))[:, 0]
    expected = model.given(digit=levels).posterior_mean(data.take(rows))[0]
    assert np.allclose(batched.code(outside)[:-1], expected, atol=1e-6)
    content = io.BytesIO()
    Image.fromarray((data.take([outside])[0, 0] * 255).byte().numpy()).save(content, "png")
    code = batched.start_from_upload(content.getvalue(), [int(levels[0])]).code
    assert np.allclose(code[:-1], expected, atol=1e-5) and code[-1] == levels[0]
    other = batched.start_from_upload(content.getvalue(), [(int(levels[0]) + 1) % 10]).code
    assert not np.allclose(other[:-1], code[:-1], atol=1e-4)


def test_every_view_of_labels_in_batches_works(batched):
    assert len(batched.reconstructions(5, "worst", 0).examples) == 5
    assert batched.decode(batched.start_from_prior(3).code)
    batched.between(int(batched.index[0]), int(batched.index[1]), 4)
    assert batched.groups(0, 0, 2, 2) and len(batched.clusters()) == 2
    batched.require_usable()
    table = untwine.codes(batched.trained.model, batched.trained.data)
    assert len(table) == len(batched.trained.data) and "log_likelihood" not in table


def test_the_menu_on_the_page_sets_the_label(view, serving):
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or pytest.skip("Chromium is not installed")
    path = view.trained.path
    app = application(Gallery.find([str(path)], path.parent))
    with serving(app) as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(f"{address}#/latents/{path.name}?start=prior-2")
        menu = page.locator(".decoded select")
        playwright.expect(menu).to_have_value("2")
        with page.expect_response(lambda answer: "decode.png" in answer.url) as decoded:
            menu.select_option("8")
        assert decoded.value.url.endswith("8") and decoded.value.ok
        assert "move=3:8" in page.url
        page.reload()
        playwright.expect(menu).to_have_value("8")
        page.goto(f"{address}#/between/{path.name}")
        playwright.expect(page.get_by_text("The label changes in the middle")).to_be_visible()
        browser.close()
