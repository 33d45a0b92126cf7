"""Figures: what they show, that they show themselves, and what they refuse."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

import untwine
from untwine.errors import DataError, IncompatibleError, ParameterError, UnknownNameError
from untwine.scoring.scores import Score, Scores
from untwine.tools.images import GRID_GAP


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return untwine.train_run(
        "beta-vae",
        "sprites",
        out=tmp_path_factory.mktemp("runs"),
        size=16,
        network="mlp",
        width=8,
        steps=30,
        batch=8,
        latent=3,
        quiet=True,
    )


def picture_shape(figure):
    (axis,) = figure.axes
    return axis.images[0].get_array().shape


def side(images):
    """Pixels of a row of 16-pixel images with gaps between them."""
    return images * (16 + GRID_GAP) - GRID_GAP


def test_traversals_have_a_row_per_latent_the_most_informative_first(trained):
    figure = untwine.plot.traversals(trained, latents=[2, 0], steps=5)
    assert picture_shape(figure) == (side(2), side(5), 3)
    assert [label.get_text()[:2] for label in figure.axes[0].get_yticklabels()] == ["z2", "z0"]
    labels = untwine.plot.traversals(trained).axes[0].get_yticklabels()
    nats = [float(label.get_text().split()[1]) for label in labels]
    assert nats == sorted(nats, reverse=True)


def test_a_model_needs_its_data_and_a_run_has_it(trained):
    with pytest.raises(ParameterError, match="name the data"):
        untwine.plot.traversals(trained.model)
    one = untwine.plot.reconstructions(trained, count=4)
    other = untwine.plot.reconstructions(trained.model, trained.data, count=4)
    pictures = [figure.axes[0].images[0].get_array() for figure in (one, other)]
    assert np.array_equal(*pictures) and picture_shape(one) == (side(2), side(4), 3)


def test_samples_repeat_and_fill_the_grid(trained):
    first, second = (untwine.plot.samples(trained, rows=2, columns=3) for _ in range(2))
    assert picture_shape(first) == (side(2), side(3), 3)
    assert first._repr_png_() == second._repr_png_()
    assert first._repr_png_().startswith(b"\x89PNG")


def test_codes_are_coloured_by_a_factor(trained):
    figure = untwine.plot.codes(trained, colour="shape")
    axis = figure.axes[0]
    assert axis.get_legend().get_title().get_text() == "shape"
    assert sum(len(points.get_offsets()) for points in axis.collections) == 1000
    bar = untwine.plot.codes(trained, latents=(2, 1), colour="orientation")
    assert (bar.axes[0].get_xlabel(), bar.axes[0].get_ylabel()) == ("z2", "z1")
    assert bar.axes[1].get_ylabel() == "orientation"
    with pytest.raises(UnknownNameError, match="'shap'"):
        untwine.plot.codes(trained, colour="shap")


def test_codes_of_vectors_without_factors():
    data = untwine.from_arrays(np.random.default_rng(0).standard_normal((50, 4)))
    model = untwine.build("vae", data, latent=1, width=8)
    assert len(untwine.plot.codes(model, data).axes) == 1
    with pytest.raises(ParameterError, match="no factors"):
        untwine.plot.codes(model, data, colour="shape")
    with pytest.raises(IncompatibleError, match="not images"):
        untwine.plot.samples(model)


def test_a_latent_that_does_not_exist_is_refused(trained):
    with pytest.raises(ParameterError, match="latents are 0 to 2"):
        untwine.plot.traversals(trained, latents=[3])


def test_the_history_has_a_panel_per_term(trained):
    figure = untwine.plot.history(trained)
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_visible()]
    assert titles == ["loss", "nll", "kl"]
    rows = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]
    line = untwine.plot.history(rows).axes[0].lines[0]
    assert line.get_ydata().tolist() == [2.0, 1.0]
    with pytest.raises(DataError, match="no rows"):
        untwine.plot.history([])


def test_the_history_is_smoothed_inside_its_axes_beside_validation():
    noise = np.random.default_rng(0).standard_normal(200)
    rows = [
        {"step": 10 * k, "loss": 1000.0 / (k + 1) + noise[k], "validation_loss": 50.0 + noise[-k]}
        for k in range(200)
    ]
    figure = untwine.plot.history(rows)
    (axis,) = [axis for axis in figure.axes if axis.get_visible()]
    assert axis.get_title(loc="left") == "loss, from step 200" and len(axis.lines) == 4
    figure.draw_without_rendering()
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    for line in axis.lines:
        x, y = line.get_data()
        assert left <= x.min() and x.max() <= right and low < y.min() and y.max() < high
    raw, smoothed = axis.lines[0].get_ydata(), axis.lines[1].get_ydata()
    assert np.abs(np.diff(smoothed)).mean() < np.abs(np.diff(raw)).mean() / 2
    assert [text.get_text() for text in figure.legends[0].texts] == ["training", "validation"]


def test_scores_stand_beside_their_references():
    references = {"perfect": {"mig": 1.0}, "random": {"mig": 0.01}}
    scores = Scores({"mig": Score({"mig": 0.4}, references), "elbo": Score({"elbo": -90.0})})
    figure = untwine.plot.scores(scores)
    compared, alone = figure.axes
    labels = {line.get_label(): line.get_xdata()[0] for line in compared.lines[1:]}
    assert labels == {"perfect": 1.0, "random": 0.01, "this model": 0.4}
    assert alone.get_title(loc="left") == "elbo"


def test_a_figure_of_a_study_takes_its_table():
    import pandas as pd

    table = pd.DataFrame(
        {
            "model": ["vae", "vae", "beta-vae", "beta-vae"],
            "setting": ["vae", "vae", "beta-vae beta=4", "beta-vae beta=4"],
            "value": ["", "", "4", "4"],
            "data": "sprites",
            "seed": [0, 1, 0, 1],
            "mig": [0.1, 0.12, 0.3, 0.33],
        }
    )
    figure = untwine.plot.by_model(table)
    assert isinstance(figure, Figure) and figure.axes[0].get_title() == "MIG"
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["VAE", "β-VAE"]
    (axis,) = untwine.plot.comparisons(table, ["mig"]).axes
    assert axis.get_xlabel() == "difference"


def test_legends_have_room_and_ticks_do_not_overlap():
    import pandas as pd

    rng, n = np.random.default_rng(0), 40
    table = pd.DataFrame(
        {
            "model": "beta-vae",
            "setting": np.where(np.arange(n) % 2, "beta-vae beta=1", "beta-vae beta=8"),
            "value": np.where(np.arange(n) % 2, "1", "8"),
            "data": "sprites(size=64)",
            "seed": np.arange(n),
            "mig": rng.random(n),
            "reconstruction.squared_error": np.geomspace(18.0, 160.0, n),
        }
    )
    figure = untwine.plot.by_value(table, "mig", table)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1 and len(legend.texts) == 2
    dots = untwine.plot.trade_off(table, "reconstruction.squared_error", ["mig"])
    dots.canvas.draw()
    (axis,) = dots.axes
    assert axis.get_xscale() == "log"
    ticks = [*axis.xaxis.get_ticklabels(minor=False), *axis.xaxis.get_ticklabels(minor=True)]
    inside = [one for one in ticks if one.get_text() and 18 <= one.get_position()[0] <= 160]
    boxes = sorted(one.get_window_extent().intervalx.tolist() for one in inside)
    assert [one.get_text() for one in inside] == ["20", "50", "100"]
    assert all(left[1] < right[0] for left, right in pairwise(boxes))


def test_values_are_joined_and_listed_in_their_order():
    import pandas as pd

    values = ["1.0", "16.0", "4.0"] * 2
    table = pd.DataFrame(
        {
            "model": "beta-vae",
            "setting": [f"beta-vae beta={value}" for value in values],
            "value": values,
            "data": "sprites(size=16)",
            "seed": np.repeat([0, 1], 3),
            "mig": [0.1, 0.3, 0.2] * 2,
        }
    )
    (axis,) = untwine.plot.by_value(table, "mig").axes
    assert [*axis.lines[0].get_xdata()] == [1, 4, 16]
    (axis,) = untwine.plot.by_seed(table, ["mig"]).axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    assert labels == ["β-VAE beta=1.0", "β-VAE beta=4.0", "β-VAE beta=16.0"]


def test_figures_of_one_style_do_not_change_the_style_of_others(trained):
    from matplotlib import rcParams

    before = dict(rcParams)
    untwine.plot.samples(trained)
    assert dict(rcParams) == before


def test_an_unknown_figure_is_refused():
    with pytest.raises(AttributeError, match="it has traversals"):
        untwine.plot.traversal  # noqa: B018
