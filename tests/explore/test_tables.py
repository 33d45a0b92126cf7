"""Tables of numbers: all views, in units of their columns, live and as a copy."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import untwine
from untwine.errors import IncompatibleError, ParameterError
from untwine.explore import rows
from untwine.explore.export import write_copy
from untwine.explore.gallery import Gallery
from untwine.explore.server import application
from untwine.explore.view import RunView
from untwine.runs.directory import open_run
from untwine.scoring.evaluation import evaluate_run

VIEWS = ("latents", "images", "between", "space", "factors", "compare", "study")
COLUMNS = ["height", "weight", "age", "shoe size", "-income", "luck"]


@pytest.fixture(scope="module")
def tabled(tmp_path_factory):
    """The directory of three runs on people.csv, one of them with clusters."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=(240, 1))
    hidden = rng.normal(size=(240, 2)) + 2 * kind
    values = hidden @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(240, 6))
    values = values * [10, 12, 20, 3, 900, 1] + [170, 70, 40, 40, 3000, 0]
    lines = [",".join(["name", *COLUMNS, "kind"])]
    for k, row in enumerate(values):
        numbers = ",".join(f"{value:.4f}" for value in row)
        lines.append(f"person {k},{numbers},{'tall' if kind[k, 0] else 'small'}")
    (folder / "people.csv").write_text("\n".join(lines))
    settings = ["table.factors=kind", "table.row_names=name", "width=32"]
    numbers = {"latent": 3, "batch": 32, "steps": 300, "lr": 3e-3, "network": "mlp"}
    for model, extra in (("vae", []), ("beta-vae", []), ("gm-vae", ["clusters=2"])):
        spec = untwine.plan(
            model, str(folder / "people.csv"), settings=[*settings, *extra], **numbers
        )
        path = untwine.run(spec, folder / "runs", quiet=True, threads=1)
        if model == "vae":
            evaluate_run(path, ["mig", "reconstruction"], n_examples=100)
    return folder / "runs"


@pytest.fixture(scope="module")
def view(tabled):
    (path,) = tabled.glob("vae-*")
    return RunView(open_run(path), name=path.name)


def test_columns_have_names_and_their_own_units(view):
    summary = view.summary()
    assert [column.name for column in summary.columns] == COLUMNS and summary.hidden == 0
    income = summary.columns[4]
    assert 300 < income.high - income.low and summary.tile == [] and summary.total == 240
    columns = view.data.columns
    exact = columns.restore(view.data.take([7]).numpy())[0]
    row = view.row_values(7)
    assert np.allclose(row.values, exact, rtol=1e-4)
    decoded = columns.restore(view.trained.model.reconstruct(view.data.take([7])).numpy())[0]
    assert np.allclose(row.reconstruction, decoded, rtol=1e-3)
    assert np.allclose(view.decode_row(view.start_from(7).code), row.reconstruction, rtol=1e-3)
    assert view.start_from(7).row == row and view.start_from(7).name == "person 7"


def test_films_and_paths_are_rows_of_numbers(view):
    code = view.start_from(3).code
    films = np.array(view.traversal_rows(code, [2, 0], 5))
    assert films.shape == (2, 5, 6)
    low = list(code)
    low[2] = next(one.low for one in view.summary().latents if one.number == 2)
    assert np.allclose(films[0, 0], view.decode_row(low), rtol=1e-3)
    path = np.array(view.between_rows(3, 9, 4))
    assert path.shape == (4, 6)
    assert np.allclose(path[-1], view.row_values(9).reconstruction, rtol=1e-3)


def test_reconstructions_and_selections_name_columns(view):
    view.measures.wait()
    worst = view.reconstructions(3, "worst").examples[0]
    gap = np.subtract(worst.row.values, worst.row.reconstruction) / view.data.columns.deviation
    assert np.isclose((gap**2).mean(), worst.error, rtol=0.01)
    level = view.sampled_levels()[:, 0]
    tall = view.data.factors.level_names["kind"].index("tall")
    selection = view.select(view.index[level == tall].tolist())
    assert selection.factors[0].level_name == "tall" and selection.picture == ""
    assert {one.name for one in selection.columns} <= set(COLUMNS) and selection.columns
    first = selection.columns[0]
    names = [column.name for column in view.summary().columns]
    values = view.in_units(view.data.take(view.index[level == tall]).numpy())
    assert np.isclose(values[:, names.index(first.name)].mean(), first.mean, rtol=1e-3)


def test_pictures_of_tables_and_rows_of_pictures_are_refused(view, explored):
    with pytest.raises(IncompatibleError, match=r"no picture; ask for \.json"):
        view.decode(view.start_from(0).code)
    images = RunView(open_run(explored[1]["clustered"]), name="images", examples=20)
    assert images.summary().columns == []
    for call in (lambda: images.row_values(0), lambda: images.between_rows(0, 1, 3)):
        with pytest.raises(IncompatibleError, match=r"are pictures; ask for \.png"):
            call()


def test_the_columns_of_a_wide_table_are_those_that_the_model_varies(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_COLUMNS", 4)
    monkeypatch.setattr(rows, "MAX_NUMBERS", 30)
    hidden = np.random.default_rng(0).normal(size=(90, 1))
    wide = np.concatenate([hidden @ [[1.0, -2, 3]], np.zeros((90, 5)) + 0.5], 1)
    np.save(tmp_path / "wide.npy", wide.astype(np.float32))
    spec = untwine.plan("vae", str(tmp_path / "wide.npy"), network="mlp", settings=["width=32"],
                        latent=2, batch=16, steps=200, lr=3e-3)  # fmt: skip
    look = RunView(open_run(untwine.run(spec, tmp_path, quiet=True, threads=1)), name="wide")
    summary = look.summary()
    assert len(summary.columns) == 4 and summary.hidden == 4
    assert {"column 1", "column 2", "column 3"} <= {column.name for column in summary.columns}
    with pytest.raises(ParameterError, match="too many numbers"):
        look.traversal_rows(look.start_from(0).code, [0, 1], 5)


# ---- in a browser ----

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def page(tabled, serving):
    if not CHROMIUM:
        pytest.skip("Chromium is not installed, so the page is not tested")
    playwright = pytest.importorskip("playwright.sync_api")
    with (
        playwright.sync_playwright() as driver,
        serving(application(Gallery.find([], tabled))) as address,
    ):
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(20_000)
        wrong = []
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.live, page.expect = address, playwright.expect
        yield page
        browser.close()
    assert not wrong


def go(page, address, view, run, state=""):
    page.goto("about:blank")
    page.goto(f"{address}#/{view}/{run}{state}")
    page.expect(page.locator(f"[data-shown='{view}/{run}']")).to_be_visible()
    page.expect(page.locator("#problem")).to_be_hidden()
    page.wait_for_load_state("networkidle")


def run_of(tabled, model):
    return next(tabled.glob(f"{model}-*")).name


@pytest.fixture(scope="module")
def copied(tabled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copied") / "shown"
    with ThreadPoolExecutor(1) as aside:  # the browser's driver occupies this thread's event loop
        return (
            aside.submit(write_copy, Gallery.find([], tabled), folder, quiet=True).result().as_uri()
        )


def test_a_copy_names_no_folders(tabled, copied):
    (data,) = Path(copied.removeprefix("file://")).parent.glob("data-*.js")
    text = data.read_text("ascii")
    assert "untwine train vae people.csv" in text and str(tabled.parent) not in text


@pytest.mark.parametrize("kind", ["live", "copied"])
def test_every_view_shows_a_table(page, tabled, copied, kind):
    address = page.live if kind == "live" else copied
    for model in ("vae", "gm-vae"):
        run = run_of(tabled, model)
        for view in VIEWS:
            go(page, address, view, run)
            assert page.locator("#content :is(table, canvas, .lines svg, .rows)").count(), view
            if view == "images" and kind == "copied":
                page.expect(page.locator("#content")).to_contain_text("24 rows in each order")
            if view in ("latents", "between", "compare", "space", "images"):
                page.expect(page.locator("#content")).to_contain_text("shoe size")


@pytest.mark.parametrize("kind", ["live", "copied"])
def test_a_slider_moves_the_values_of_columns(page, tabled, copied, kind):
    run = run_of(tabled, "vae")
    go(page, page.live if kind == "live" else copied, "latents", run)
    values = page.locator(".decoded .rows li b")
    assert values.count() == 6
    before = values.all_inner_texts()
    page.get_by_role("slider").first.focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(400)
    low = values.all_inner_texts()
    page.keyboard.press("End")
    page.wait_for_timeout(400)
    assert low != before and values.all_inner_texts() != low
    page.expect(page.locator(".latent .key").first).to_contain_text("→")


def test_errors_are_shown_by_column(page, tabled):
    go(page, page.live, "images", run_of(tabled, "vae"), "?order=worst")
    card = page.locator(".pair").first
    page.expect(card).to_contain_text(re.compile(r"person \d+"))
    page.expect(card).to_contain_text(re.compile("kind (tall|small)"))
    assert card.locator("tbody tr").count() == 6


def test_names_are_found_in_all_rows(page, tabled):
    def fewer_dots(route):
        answer = route.fetch().json()
        for part in (answer, *answer["colourings"]):
            part |= {key: part[key][:100] for key in part if key in FEWER}
        route.fulfill(json=answer)

    FEWER = ("index", "x", "y", "names", "levels")
    page.route("**/space?*", fewer_dots)
    go(page, page.live, "space", run_of(tabled, "vae"))
    page.get_by_label("Find dots").fill("PERSON 23")  # 23 and 230 to 239
    told = page.locator(".controls [role=status]")
    page.expect(told).to_contain_text("of the 100 dots shown")
    page.expect(told).to_contain_text("In all data 11 examples: person 23, person 230")
    assert told.locator("a").count() == 5
    told.get_by_role("link", name="person 231", exact=True).click()
    page.expect(page.locator(".origin")).to_contain_text("person 231")
    page.unroute("**/space?*")


def test_clusters_of_rows_have_means(page, tabled):
    go(page, page.live, "between", run_of(tabled, "gm-vae"))
    assert page.locator(".cluster tbody tr").count() >= 6


def test_tables_fit_a_phone(page, tabled):
    page.set_viewport_size({"width": 360, "height": 740})
    for view in VIEWS:
        go(page, page.live, view, run_of(tabled, "vae"))
        assert page.evaluate("document.documentElement.scrollWidth") == 360, view
    page.set_viewport_size({"width": 1280, "height": 900})
