"""The report and the explorer agree about the latents of a run, and encode its data once."""

import re
from html import unescape
from typing import NamedTuple

import numpy as np
import pytest

import untwine
from untwine.explore.view import RunView
from untwine.latents import SAMPLE_SIZE
from untwine.report import run
from untwine.report.run import N_RECONSTRUCTIONS, write_report
from untwine.runs import directory
from untwine.runs.directory import open_run
from untwine.scoring.representation import GROUP_SIZE
from untwine.scoring.scores import Scores

KINDS = ("mog-prior", "sylvester", "vae", "gm-vae", "vsc", "intel-sparse")
EXACT = ("vae", "intel-sparse")  # posterior and prior are Gaussian
CLUSTERED = ("mog-prior", "gm-vae")
N_EXAMPLES, BATCH = 64, 16
ROW = re.compile(
    r"<b>z(?P<number>\d+)</b><span>(?P<mark>≈ )?(?P<nats>[\d.]+) nats"
    r"(?:\s*· (?P<factor>\S.*?) \((?P<share>\d+)&nbsp;%\))?</span>"
)


class Row(NamedTuple):
    """A latent as text."""

    number: int
    exact: bool
    nats: str
    factor: str
    share: str  # in percent
    active: bool


class Opened(NamedTuple):
    """A run as the report and the explorer show it."""

    kind: str
    report: str
    view: RunView


@pytest.fixture(scope="module", params=KINDS)
def opened(request, tmp_path_factory):
    spec = untwine.plan(
        request.param, "sprites", network="mlp", settings=["size=16", "width=32"],
        latent=4, batch=32, steps=120, lr=3e-3,
    )  # fmt: skip
    path = untwine.run(spec, tmp_path_factory.mktemp("runs"), threads=1, quiet=True)
    with pytest.MonkeyPatch.context() as patch:  # scores take seconds and are tested elsewhere
        patch.setattr(run, "evaluate_representation", lambda *_, **__: Scores())
        report = write_report(path).read_text("utf-8")
    return Opened(request.param, report, RunView(open_run(path), name="run"))


def rows_of_report(html):
    """The latents of a report, in its order."""
    active, *inactive = re.split("inactive latents?</summary>", html, maxsplit=1)
    return [
        Row(
            number=int(row["number"]),
            exact=row["mark"] is None,
            nats=row["nats"],
            factor=unescape(row["factor"] or ""),
            share=row["share"] or "0",
            active=is_active,
        )
        for part, is_active in ((active, True), ("".join(inactive), False))
        for row in ROW.finditer(part)
    ]


def rows_of_explorer(view):
    """The latents of the explorer, in its order, as the report writes them."""
    return [
        Row(
            number=latent.number,
            exact=latent.exact,
            nats=f"{latent.nats:.2f}",
            factor=latent.factor,
            share=f"{100 * latent.share:.0f}",
            active=latent.active,
        )
        for latent in view.summary().latents
    ]


def test_report_and_explorer_show_the_same_latents(opened):
    rows = rows_of_report(opened.report)
    assert rows == rows_of_explorer(opened.view)
    assert sorted(row.number for row in rows) == list(range(4))
    assert {row.exact for row in rows} == {opened.kind in EXACT}


def test_report_and_explorer_show_the_same_factor_shares(opened):
    matrix = opened.report.partition('<table class="matrix')[2].partition("Reconstructions")[0]
    shares = [float(cell) / 100 for cell in re.findall(r">(\d+)</td>", matrix)]
    table = opened.view.factors()
    assert [int(number) for number in re.findall(r"<th>z(\d+)</th>", matrix)] == table.latents
    assert np.allclose(np.ravel(table.matrix), shares, atol=0.0051)  # four decimals, and percent


def test_clusters_are_those_that_the_model_assigns(opened):
    view = opened.view
    if opened.kind not in CLUSTERED:
        assert view.summary().clusters == 0
        return
    assigned = view.trained.model.assign(view.data.take(view.index)).numpy()
    assert np.array_equal(view.statistics().clusters, assigned)
    for cluster in view.clusters():
        members = [view.row_of[index] for index in cluster.members]
        assert (assigned[members] == cluster.number).all()
        assert np.isclose(cluster.share, (assigned == cluster.number).mean())


class Counter:
    """Counts the models that are built, and the examples that their encoders see."""

    def __init__(self, monkeypatch):
        self.models, self.examples = 0, 0
        build = directory.load_from_card

        def build_and_count(*args, **kwargs):
            model = build(*args, **kwargs)
            self.models += 1
            model.encoder.register_forward_hook(self.count)
            return model

        monkeypatch.setattr(directory, "load_from_card", build_and_count)

    def count(self, module, inputs, output):
        self.examples += len(inputs[0])


def test_a_report_builds_one_model_and_encodes_every_example_once(tmp_path, monkeypatch):
    numbers = {"steps": 5, "batch": BATCH}
    spec = untwine.plan("vae", "sprites", network="mlp", settings=["size=16"], **numbers)
    path = untwine.run(spec, tmp_path, threads=1, quiet=True)
    # What scores are computed from: each quantity takes one pass over its examples.
    scored = {
        "codes": N_EXAMPLES,
        "test_codes": N_EXAMPLES // 2,
        "sampled_codes": N_EXAMPLES,
        "elbos": N_EXAMPLES,
        "log_weights": N_EXAMPLES,
    }
    # This model has neither, which shows in the first batch; nothing is stored of either.
    refused = {"batch_codes": GROUP_SIZE, "assignments": BATCH}
    pictures = N_RECONSTRUCTIONS + 1  # and the start of the traversals
    blank = 2 * 2  # two blank examples, both times that the layout of the code is looked up
    always = sum(refused.values()) + SAMPLE_SIZE + pictures + blank
    counter = Counter(monkeypatch)
    write_report(path, n_examples=N_EXAMPLES)
    assert counter.models == 1
    assert counter.examples == sum(scored.values()) + always
    counter = Counter(monkeypatch)
    write_report(path, n_examples=N_EXAMPLES)
    assert counter.models == 1
    assert counter.examples == always
