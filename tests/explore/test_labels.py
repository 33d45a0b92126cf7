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
        browser.close()
