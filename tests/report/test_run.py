"""The report: one self-contained page."""

import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import untwine
from untwine.report.columns import column_changes, column_errors
from untwine.report.findings import what_was_learned
from untwine.runs.describe import train_command
from untwine.scoring.latents import LatentDescription
from untwine.scoring.scores import Score, Scores
from untwine.spec import plan


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    spec = plan(
        "beta-tcvae", "sprites", settings=["size=16", "width=4"], steps=30, batch=8, latent=3
    )
    path = untwine.run(spec, tmp_path_factory.mktemp("runs"), threads=1, quiet=True)
    return untwine.write_report(path, n_examples=60).read_text("utf-8")


class Balanced(HTMLParser):
    """Fails on tags that are not closed."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in {"meta", "img", "br", "link", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_from_elsewhere(page):
    assert not re.search(r'(src|href)="(?!data:|#)', page.replace('xlink:href="#', 'href="#'))
    assert "@import" not in page and "<script" not in page


def test_the_page_is_well_formed(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


@pytest.mark.parametrize(
    "part",
    [
        "β-TCVAE on sprites",
        "Mutual information gap",
        "What was learned",
        "No latent is active",
        "What each latent does",
        "Reconstructions",
        "Samples",
        "Which latent knows which factor",
        "orientation",
        "Training",
        "Specification",
        "<svg",
        "currentColor",
        "untwine train beta-tcvae sprites",
    ],
)
def test_the_page_shows_everything(page, part):
    assert part in page


def test_latents_are_sorted_by_kl(page):
    nats = [float(n) for n in re.findall(r"([\d.]+) nats", page)]
    assert len(nats) == 3 and nats == sorted(nats, reverse=True)


def test_the_command_makes_the_same_run_again():
    spec = plan(
        "beta-tcvae+jigsaw",
        "sprites",
        settings=["size=32", "beta=1.23456789", "grid=2"],
        network="mlp",
        seed=4,
        lr=1.23456789e-4,
    )
    words = shlex.split(train_command(spec))[2:]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    settings = [b for a, b in zip(words[2::2], words[3::2], strict=True) if a == "--set"]
    again = plan(
        words[0],
        words[1],
        settings=settings,
        network=options["--network"],
        likelihood=options["--likelihood"],
        latent=int(options["--latent"]),
        steps=int(options["--steps"]),
        batch=int(options["--batch"]),
        lr=float(options["--lr"]),
        seed=int(options["--seed"]),
    )
    assert again == spec


def test_your_own_data_is_called_by_its_file(tmp_path):
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).standard_normal((40, 4)))
    spec = plan("vae", str(tmp_path / "mine.npy"), steps=3, batch=8, latent=2)
    page = untwine.write_report(untwine.run(spec, tmp_path / "runs", quiet=True), n_examples=20)
    text = page.read_text("utf-8")
    assert "VAE on mine.npy" in text and "per number, lower is better" in text
    assert str(tmp_path) not in text and "untwine train vae mine.npy" in text
    assert "no factors" in text and "1 threads" not in text


def test_the_report_of_a_table_has_lines_and_errors_per_column(tmp_path):
    rng = np.random.default_rng(0)
    height = rng.normal(1.7, 0.1, 64)
    columns = {"height": height, "weight": 60 * height, "<noise>": rng.normal(0, 1e4, 64)}
    pd.DataFrame(columns).to_csv(tmp_path / "people.csv", index=False)
    trained = untwine.train_run(
        *("vae", str(tmp_path / "people.csv"), tmp_path / "runs"),
        **{"steps": 400, "batch": 32, "latent": 1, "lr": 1e-2, "quiet": True},
    )
    changes = column_changes(trained, 1)
    assert [one.name for one in changes[0]][2] == "<noise>", "what varies together is learned"
    assert float(changes[0][0].high) < 300, "in its own unit"
    errors = {one.name: one.share for one in column_errors(trained)}
    assert errors["height"] < 0.6 < errors["<noise>"]
    page = untwine.write_report(trained.path, metrics=["elbo"]).read_text("utf-8")
    parser = Balanced()
    parser.feed(page)
    assert "Error per column" in page and "<polyline" in page and "&lt;noise&gt;" in page
    assert "Reconstructions</h2>" not in page


def test_vectors_without_names_have_numbered_columns(tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(32, 50)))
    trained = untwine.train_run(
        "vae", str(tmp_path / "v.npy"), tmp_path, steps=2, batch=8, latent=2, quiet=True
    )
    page = untwine.write_report(trained.path, metrics=["elbo"]).read_text("utf-8")
    assert "column 50" in page and "10 more columns" in page


def describe(nats, shares, names):
    return [
        LatentDescription(d, "z", value, True, "", 0.0, 1.0) for d, value in enumerate(nats)
    ], np.array(shares).reshape(len(nats), len(names))


def test_what_was_learned_is_said_in_words():
    names = ("hue", "size", "turn", "shape")
    latents, shares = describe(
        [2.0, 1.0, 0.01], [[0.9, 0.0, 0.0, 0.4], [0.4, 0.2, 0.0, 0.0], [0, 0, 0.9, 0]], names
    )
    bound = Scores({"log-likelihood": Score({"log_likelihood": -9.0, "effective_draws": 3.0})})
    said = what_was_learned(latents, shares, names, [], bound)
    assert said == [
        "It knows 2 of 4 factors: hue (90 % in z0) and shape (40 % in z0).",
        "It knows in part: size (20 % in z1).",
        "It does not know: turn.",
        "2 of 3 latents are active, 1 is not.",
        "z0 mixes hue and shape.",
        "Hue is spread over z0 and z1.",
        "Log-likelihood by importance sampling is unreliable: 3.0 effective draws, fewer than 10.",
    ]
    conditional = what_was_learned(latents, shares, names, [], Scores(), ("hue", "shape"))
    assert conditional == [
        "It knows none of 2 factors well.",
        "It knows in part: size (20 % in z1).",
        "It does not know: turn.",
        "It is told hue, which codes need not hold: z0 knows most of it (90 %).",
        "It is told shape, which codes need not hold: z0 knows most of it (40 %).",
        "2 of 3 latents are active, 1 is not.",
    ]
    assert what_was_learned(latents, shares, names, [], Scores(), names)[0].startswith("It is told")
    collapsed, shares = describe([0.0, 0.01], np.zeros((2, 4)), names)
    (said,) = what_was_learned(collapsed, shares, names, [], Scores())
    assert "collapsed" in said


def test_a_validation_loss_that_rises_is_named():
    latents, shares = describe([1.0], [], ())
    falling = [{"step": 10 * k, "validation_loss": 100.0 - k} for k in range(30)]
    rising = [*falling, *({"step": 300 + k, "validation_loss": 71.0 + k} for k in range(20))]
    assert "did not rise" in what_was_learned(latents, shares, (), falling, Scores())[-1]
    said = what_was_learned(latents, shares, (), rising, Scores())[-1]
    assert "lowest at step 290 (71)" in said and "overfits" in said
