"""The page in a real browser: learning curves, studies, menus, keyboard; runs that come and go."""

import csv
import io
import json
import os
import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import untwine
from untwine.explore import gallery
from untwine.explore.export import write_copy
from untwine.explore.gallery import Gallery
from untwine.explore.server import application
from untwine.runs.directory import read_spec
from untwine.study.file import Study
from untwine.study.folder import make_folder
from untwine.tools.sealed import read_json, write_json

expect = pytest.importorskip("playwright.sync_api").expect
expect.set_options(timeout=30_000)  # of a busy machine
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def trained(explored, tmp_path_factory):
    """A directory of runs, among them one with held-out data, for copies that may be changed."""
    out = tmp_path_factory.mktemp("trained") / "runs"
    shutil.copytree(explored[0], out)
    spec = untwine.plan(
        "beta-tcvae", "sprites", size=16, beta=2, network="mlp", latent=5, batch=32, steps=60,
        validation=0.0001,
    )  # fmt: skip
    untwine.run(spec, out, quiet=True, threads=1)
    return out


@pytest.fixture
def runs(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "FIND_INTERVAL", 0.0)
    return shutil.copytree(trained, tmp_path / "runs")


@pytest.fixture
def opened(runs, visit, serving):
    """A function that opens the page of these runs at an address."""
    with serving(application(Gallery.find([], runs))) as address:
        yield lambda rest="", **settings: visit(f"{address}{rest}", **settings)
        visit.close()


def named(runs, beginning):
    (path,) = runs.glob(f"{beginning}*")
    return path


def beta(runs, value):
    """The run of β-TCVAE with this β."""
    paths = runs.glob("beta-tcvae-*")
    return next(path for path in paths if read_spec(path).model[0].params["beta"] == value)


def make_running(path, step, steps=60, share=0.5):
    """Turn a finished run into one in training that has reached a step."""
    rows = list(untwine.open_run(path).history) if (path / "done.json").exists() else None
    if rows is None:
        rows = read_json(path / "all.json")["rows"]
    else:
        write_json(path / "all.json", {"rows": rows})
        shutil.copy(path / "done.json", path / "done.kept")
    (path / "done.json").unlink(missing_ok=True)
    (path / ".owner").write_text(f"process {os.getpid()} on {socket.gethostname()}")
    history = [row for row in rows if row["step"] <= step]
    content = {"step": step, "steps": steps, "seconds": 2.0 * step, "history": history}
    write_json(path / "progress.json", content)


def finish(path):
    """Turn it back."""
    (path / ".owner").unlink()
    (path / "progress.json").unlink()
    shutil.copy(path / "done.kept", path / "done.json")


def points(page, number=0):
    """The number of points of the first line of a chart."""
    drawn = page.locator(".chart").nth(number).locator(".line:not(.raw)").first
    return len(re.findall("[ML]", drawn.get_attribute("d")))


def test_curves_of_several_runs_with_validation_smoothing_and_logarithms(opened, runs):
    page = opened(f"#/curves/{beta(runs, 2.0).name}")
    titles = page.locator(".chart figcaption")
    expect(titles).to_have_text(["loss", "nll", "kl", "tc", "elbo"])
    first = page.locator(".chart").first
    expect(first.locator(".line")).to_have_count(2)
    expect(first.locator(".line.validation")).to_have_count(1)
    page.get_by_label("Add a run").select_option(beta(runs, 4.0).name)
    expect(first.locator(".line")).to_have_count(3)
    expect(page.locator(".curved li")).to_have_count(2)
    page.get_by_role("checkbox", name="validation").uncheck()
    expect(page.locator(".line.validation")).to_have_count(0)
    plain = first.locator(".line").first.get_attribute("d")
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    expect(first.locator(".line.raw")).to_have_count(2)
    assert first.locator(".line:not(.raw)").first.get_attribute("d") != plain
    page.get_by_label("log steps").check()
    page.get_by_label("log values").check()
    page.get_by_text("Terms", exact=True).click()
    page.get_by_role("checkbox", name="kl", exact=True).uncheck()
    expect(titles).to_have_text(["loss", "nll", "tc"])
    address = page.url
    assert all(word in address for word in ("with=", "smooth=0.9", "log=xy", "terms="))
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator(".chart figcaption")).to_have_text(["loss", "nll", "tc"])
    expect(page.locator(".chart").first.locator(".line:not(.raw)")).to_have_count(2)
    expect(page.get_by_text("tc is shown without the constant", exact=False)).to_be_visible()


def test_the_value_under_the_pointer_is_read_out(opened, runs):
    page = opened(f"#/curves/{beta(runs, 4.0).name}")
    page.locator(".curve").first.hover()
    expect(page.locator(".reading").first).to_contain_text(re.compile(r"Step \d+"))


def test_a_running_run_updates_by_itself_until_it_ends(opened, runs, visit):
    path = beta(runs, 4.0)
    make_running(path, 20)
    page = opened(f"#/curves/{path.name}")
    assert points(page) == 2
    expect(page.locator(".curved")).to_contain_text("step 20 of 60")
    expect(page.locator(".curved")).to_contain_text("left")
    make_running(path, 50)
    expect(page.locator(".curved")).to_contain_text("step 50 of 60")
    assert points(page) == 5
    finish(path)
    expect(page.locator(".curved")).to_contain_text("step 60 of 60")
    expect(page.get_by_role("link", name=re.compile("β-TCVAE beta=4"))).to_be_visible()
    page.wait_for_timeout(500)
    visit.asked.clear()
    page.wait_for_timeout(3000)
    assert not [url for url in visit.asked if url.endswith("/curves")]


def test_nothing_is_asked_while_the_tab_is_hidden(opened, runs, visit):
    path = beta(runs, 4.0)
    make_running(path, 20)
    page = opened(f"#/curves/{path.name}")
    hide = """(value) => {
        Object.defineProperty(document, "hidden", {value, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.wait_for_timeout(2500)  # what was under way has ended
    visit.asked.clear()
    page.wait_for_timeout(5000)
    assert visit.asked == []
    make_running(path, 30)
    page.evaluate(hide, False)
    expect(page.locator(".curved")).to_contain_text("step 30 of 60")


def test_a_run_that_begins_appears_and_opens_when_it_is_finished(opened, runs, tmp_path):
    path = named(runs, "ug-vae")
    make_running(path, 30)
    path.rename(tmp_path / path.name)
    page = opened()
    menu = page.get_by_label("Run", exact=True)
    expect(menu.locator("option")).to_have_count(3)
    (tmp_path / path.name).rename(path)
    expect(menu.locator("option")).to_have_count(4)
    menu.select_option(path.name)
    expect(page.locator("#content")).to_contain_text("This run is in training: at 50 %")
    finish(path)
    expect(page.locator(f"[data-shown='latents/{path.name}']")).to_be_visible(timeout=30_000)


def test_failed_and_stopped_runs_say_so(opened, runs):
    failed, stopped = beta(runs, 4.0), named(runs, "ug-vae")
    for path in (failed, stopped):
        make_running(path, 20)
        (path / ".owner").unlink()
    write_json(failed / "failed.json", {"attempts": 1, "reason": "the loss became NaN"})
    page = opened(f"#/curves/{failed.name}?with={stopped.name}")
    expect(page.locator(".curved .failed").first).to_contain_text("The loss became NaN.")
    expect(page.locator(".curved")).to_contain_text("stopped at 0 %")
    expect(page.get_by_text("Of 4 runs: 1 failed, 1 stopped.")).to_be_visible()
    assert page.locator(".chart").first.locator(".line").count() == 2
    page.get_by_role("link", name="Latents").click()
    expect(page.locator("#content")).to_contain_text("This run failed. The loss became NaN.")


def test_keys_switch_views_and_show_the_shortcuts(opened):
    page = opened()
    page.keyboard.press("7")
    expect(page.locator("nav a[aria-current]")).to_have_text("Curves")
    page.keyboard.press("8")
    expect(page.locator("nav a[aria-current]")).to_have_text("Study")
    page.get_by_label("Find").fill("1")
    expect(page.locator("nav a[aria-current]")).to_have_text("Study")
    page.locator("h1:visible").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("views, from the left")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("1")
    expect(page.locator("nav a[aria-current]")).to_have_text("Latents")


def test_the_command_of_a_run_is_copied(opened, runs, browser):
    page = opened(f"#/latents/{beta(runs, 4.0).name}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("How this run was made").click()
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator(".copier")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("untwine train beta-tcvae")


def test_compare_begins_with_a_run_that_fits_and_tells_the_two_apart(opened, runs):
    page = opened(f"#/compare/{beta(runs, 4.0).name}")
    expect(page.get_by_label("with")).to_have_value(re.compile("beta-tcvae-|ug-vae-"))
    page.get_by_label("with").select_option(beta(runs, 2.0).name)
    captions = page.locator(".versus .decoded figcaption")
    expect(captions.first).to_contain_text("A β-TCVAE beta=4.0")
    expect(captions.last).to_contain_text("B β-TCVAE beta=2.0")
    page.get_by_role("button", name="the prior").click()
    expect(page.locator(".versus .origin").first).to_contain_text("draw 1 from the prior")
    page.get_by_role("button", name="the prior").click()
    expect(page.locator(".versus .origin").first).to_contain_text("draw 2 from the prior")


def test_compare_alone_says_what_to_run(visit, serving, runs):
    path = beta(runs, 4.0)
    with serving(application(Gallery.find([path], runs))) as address:
        page = visit(f"{address}#/compare/{path.name}")
        expect(page.locator(".empty pre")).to_contain_text("--seed 1")
        visit.close()


@pytest.fixture(scope="module")
def study(trained, tmp_path_factory):
    """A study of two models and two seeds with three scores, and one run that waits."""
    base = [read_spec(beta(trained, 4.0)), read_spec(named(trained, "ug-vae"))]
    specs = [replace(spec, seed=seed) for spec in base for seed in (0, 1)]
    plan = Study("two-models", (*specs, replace(base[0], seed=2)), ("mig", "elbo"), 200, "About.")
    folder = make_folder(plan, tmp_path_factory.mktemp("studies"))
    for number, spec in enumerate(specs):
        path = folder.runs / spec.directory
        untwine.run(spec, folder.runs, quiet=True, threads=1)
        kept = {"references": {}, "params": {}, "examples": 200, "seed": 0}
        values = {
            "mig": {"mig": 0.1 + 0.01 * number**2},
            "elbo": {"elbo": -90.5 - number, "standard_error": 0.5},
            "reconstruction": {"squared_error": 12.25 - number, "cross_entropy": 40.0 + number},
        }
        write_json(path / "scores.json", {k: {**kept, "values": v} for k, v in values.items()})
    return folder


@pytest.fixture(scope="module")
def study_page(study, serving):
    with serving(application(Gallery.find([study.path], "nowhere"))) as address:
        yield address


def test_a_study_opens_with_what_was_learned_and_its_tables_and_figures(visit, study_page):
    page = visit(study_page)
    expect(page.locator("nav a[aria-current]")).to_have_text("Study")
    expect(page.locator("h1")).to_have_text("two-models")
    expect(page.locator("h2").first).to_have_text("What was learned")
    titles = page.locator("h2").all_inner_texts()
    assert titles[:4] == ["What was learned", "What to use", "Scores by setting", "Runs"]
    assert {"Scores by model", "Do scores agree?"} <= set(titles)
    expect(page.locator(".points li").first).to_be_visible()
    expect(page.locator(".report b").first).to_be_visible()
    figure = page.get_by_role("img", name="Scores by model")
    figure.scroll_into_view_if_needed()
    page.wait_for_function(
        "image => image.complete && image.naturalWidth > 100", arg=figure.element_handle()
    )


def test_columns_of_a_study_are_aligned_chosen_sorted_and_saved(visit, study_page):
    page = visit(f"{study_page}#/study/")
    table = page.get_by_role("region", name="Runs")
    heads = table.locator("thead th")
    assert heads.all_inner_texts()[:4] == ["setting", "seed", "MIG", "ELBO (nats)"]
    cells = table.locator("tbody tr td:nth-child(4)")
    assert sorted(cells.all_inner_texts()) == ["−90.50", "−91.50", "−92.50", "−93.50"]
    head, cell = heads.nth(3), cells.first
    assert {one.evaluate("e => getComputedStyle(e).textAlign") for one in (head, cell)} == {"right"}
    heads.nth(2).get_by_role("button").click()
    assert table.locator("tbody td:nth-child(3)").first.inner_text() == "0.1900"
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="latent").check()
    page.get_by_role("checkbox", name="ELBO (nats)").uncheck()
    expect(page).to_have_url(re.compile("columns=.*latent"))
    assert "ELBO (nats)" not in heads.all_inner_texts() and "latent" in heads.all_inner_texts()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "two-models.csv"
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8"))))
    assert len(rows) == 4 and float(rows[0]["mig"]) == pytest.approx(0.19)
    assert rows[0]["directory"] and "elbo.standard_error" in rows[0]
    with page.expect_download() as download:
        page.evaluate("parts.saveCsv('cells.csv', [['=1+1', -2, 'b, c', null], ['-x', 0]])")
    assert download.value.path().read_text("utf-8") == "'=1+1,-2,\"b, c\",\n'-x,0\n"
    table.get_by_role("link").first.click()
    expect(page.locator("nav a[aria-current]")).to_have_text("Latents")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_score_is_seen_on_a_phone_and_the_tabs_fade(visit, study_page, scheme):
    page = visit(f"{study_page}#/latents/", **PHONE, color_scheme=scheme)
    nav = page.locator("nav")
    expect(nav).to_have_class(re.compile("more-after"))
    page.goto(f"{study_page}#/study/")
    expect(nav).to_have_class(re.compile("more-before"))
    expect(page.get_by_text("Tap a name to open its run")).to_be_visible()
    table = page.get_by_role("region", name="Runs")
    box = table.locator("tbody td:nth-child(3)").first.bounding_box()
    assert box["x"] + box["width"] <= 360
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.goto(f"{study_page}#/curves/")
    page.locator(".chart").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_copy_has_curves_and_the_study(visit, study, tmp_path):
    with ThreadPoolExecutor(1) as aside:  # the browser's driver occupies this thread's event loop
        place = Gallery.find([study.path], "nowhere")
        index = aside.submit(write_copy, place, tmp_path / "copy", quiet=True).result()
    page = visit(index.as_uri())
    expect(page.locator("h1")).to_have_text("two-models")
    expect(page.locator("h2").first).to_have_text("What was learned")
    page.keyboard.press("7")
    expect(page.locator(".chart").first.locator(".line")).to_have_count(1)
    other = page.get_by_label("Add a run").locator("option").nth(1).get_attribute("value")
    page.get_by_label("Add a run").select_option(other)
    expect(page.locator(".chart").first.locator(".line")).to_have_count(2)
    (data,) = (tmp_path / "copy").glob("data-*.js")
    answers = json.loads(data.read_text().partition("= ")[2].rstrip(";\n"))["answers"]
    assert sum(address.endswith("/curves") for address in answers) == 4
