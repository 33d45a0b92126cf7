"""What a notebook shows: cards that parse, hold no script and stay small."""

import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest

import untwine
from untwine.tools import notebook
from untwine.tools.progress import progress

VOID = {"img", "br"}


class Page(HTMLParser):
    """The tags of a piece of HTML, which must be balanced, and its text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return untwine.train_run(
        "jigsaw+beta-vae",
        "sprites",
        out=tmp_path_factory.mktemp("runs"),
        size=16,
        network="mlp",
        width=8,
        steps=20,
        batch=8,
        latent=3,
        quiet=True,
    )


def shown(thing):
    html = thing._repr_html_()
    assert len(html) < 200_000
    page = Page(html)
    assert "script" not in page.tags
    return page


def test_a_model_shows_its_equation_parts_and_active_latents(trained):
    page = shown(trained.model)
    for part in ("β-VAE", "β", "Shuffle", "3, ", "of them active", "weights", "sprites(size=16)"):
        assert part in page.text, part
    plain = untwine.build("vae", trained.data, width=8, latent=2)
    assert "active" not in shown(plain).text  # not trained: nothing is known of its latents


def test_data_shows_its_factors_and_examples(trained):
    page = shown(trained.data)
    assert "737,280 images of 1x16x16" in page.text and "orientation (40)" in page.text
    assert page.tags.count("img") == 1


def test_data_without_pictures_or_names_shows_its_size():
    rng = np.random.default_rng(0)
    page = shown(untwine.from_arrays(rng.standard_normal((50, 4))))
    assert "50 vectors of 4" in page.text and "img" not in page.tags
    large = untwine.from_arrays(rng.integers(0, 256, (9, 300, 200, 3), np.uint8))
    assert "9 images of 3x300x200" in shown(large).text


def test_a_run_shows_what_was_asked_for_and_what_came_out(trained):
    text = shown(trained).text
    assert "jigsaw" in text and "at step 20" in text and "none yet" in text
    untwine.evaluate_run(trained.path, ["reconstruction"], n_examples=50)
    assert "reconstruction.squared_error" in shown(trained).text


def test_scores_show_a_table_with_references_and_a_short_line(trained):
    scores = untwine.evaluate(trained.model, trained.data, ["mig", "elbo"], n_examples=200)
    page = shown(scores)
    assert page.tags.count("tr") == 1 + len(scores.to_frame())
    assert "perfect" in page.text and "–" in page.text  # the ELBO has no reference codes
    assert repr(scores).startswith("<Scores: mig 0.") and len(repr(scores)) < 60


def test_a_study_shows_its_runs_and_their_state(tmp_path):
    from untwine.study.folder import make_folder

    study = untwine.study.read("constrained-vaes", scale="smoke")
    assert repr(study).startswith("<Study constrained-vaes-smoke: 3 settings, 6 runs")
    assert "beta-vae" in shown(study).text
    folder = make_folder(study, tmp_path)
    assert "6 waiting" in shown(folder).text and repr(folder).startswith("<StudyFolder ")


def test_a_history_does_not_print_its_rows(trained):
    assert repr(trained.history).startswith("<History: ") and "step 20" in repr(trained.history)
    assert repr(untwine.History()) == "<History: 0 rows>"


def test_names_are_escaped():
    page = Page(notebook.card_html("<b>", [("<i>", "<script>")], text="<u>", picture='"><script>'))
    assert page.tags == ["div", "strong", "pre", "table", "tr", "td", "td", "img"]


def pretend_notebook(monkeypatch, *, widgets):
    shell = type("ZMQInteractiveShell", (), {})()
    fake = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "ipywidgets", types.ModuleType("w") if widgets else None)


@pytest.mark.parametrize("widgets", [True, False])
def test_notebooks_have_bars_where_widgets_are_installed(monkeypatch, capsys, widgets):
    from contextlib import contextmanager

    drawn = []

    @contextmanager
    def bar(total, label):
        drawn.append(label)
        yield lambda done, note: None

    monkeypatch.setattr("untwine.tools.progress._bar", bar)
    pretend_notebook(monkeypatch, widgets=widgets)
    with progress(2, "training") as show:
        show(2, "loss 1")
    assert drawn == (["training"] if widgets else [])
    assert ("training 2/2" in capsys.readouterr().err) is not widgets
