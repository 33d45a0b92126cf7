"""Pages of sections."""

import numpy as np
import pytest
from jinja2 import UndefinedError

from untwine.tools.figures import INK, figure_svg, panels, styled
from untwine.tools.pages import Section, file_name, markdown, render, save_figures


def test_figures_and_pictures_are_files_and_inlined(tmp_path):
    figure, _ = panels(1)
    picture = np.zeros((4, 6, 3), np.uint8)
    sections = [
        Section("curve", "Curve", "A curve.", figure=figure),
        Section("grid", "Grid", "A grid.", picture=picture),
        Section("table", "Table", "A table.", header=("a",), rows=(("1",),)),
    ]
    curve, grid, table = save_figures(sections, tmp_path, quiet=True)
    assert curve.svg.startswith("<svg") and grid.image.startswith("data:image/png;base64,")
    assert table == sections[2] and not table.files
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert files == sorted(curve.files + grid.files)
    assert "![Grid](figures/grid.png)" in markdown(grid) and "| 1 |" in markdown(table)


def test_names_of_files_have_no_odd_characters():
    assert file_name("a b/c", "d: e") == "a-b-c-d-e"


def test_a_missing_value_of_a_template_is_an_error():
    with pytest.raises(UndefinedError):
        render("reproduction.html")


def test_svg_repeats():
    figure, axes = panels(4, most=3)
    assert len(axes) == 4 and len(figure.axes) == 6
    assert figure_svg(figure) == figure_svg(figure)


def test_figures_are_legible_on_a_dark_page():
    figure, (axis,) = styled(panels)(1)
    axis.plot([0, 1], color="C0")
    element = figure_svg(figure).decode()
    style, _, content = element.partition("</style>")
    assert "var(--on-1f77b4,#1f77b4)" in content and "currentColor" in content
    assert "prefers-color-scheme:dark" in style and "--on-1f77b4:" in style
    assert "stroke: #1f77b4" not in content and INK not in content
