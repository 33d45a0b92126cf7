"""The page in a real browser: every view, live and as a copy opened from a file."""

import io
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from untwine.explore.export import write_copy
from untwine.explore.gallery import Gallery
from untwine.explore.server import application

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

VIEWS = ("latents", "images", "between", "space", "factors", "compare", "curves", "study")


@pytest.fixture(scope="session")
def place(explored):
    out, paths = explored
    return Gallery.find([str(path) for path in paths.values()], out)


@pytest.fixture(scope="session")
def live(place, serving):
    """The address of a server without a token."""
    with serving(application(place)) as address:
        yield address


def test_a_token_opens_the_page_and_leaves_the_address(browser, place, serving):
    app = application(place, token="secret", one_time_tokens=["once"])
    with serving(app) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}?token=once")
        ready(page)
        assert "token" not in page.url and page.locator("#content canvas").count()
        page.reload()
        ready(page)
        assert context.cookies()[0]["httpOnly"]
        assert page.evaluate("document.cookie") == ""
        context.close()
        stranger = browser.new_context().new_page()
        assert stranger.goto(f"{address}?token=once").status == 401
        expect(stranger.locator("body")).to_contain_text("?token=")
        stranger.context.close()


def test_a_page_of_another_site_gets_nothing(browser, place, serving):
    """Pictures, scripts, forms, fetches and frames of another origin, without and with a cookie."""
    from fastapi import FastAPI
    from fastapi.responses import HTMLResponse

    other, app = FastAPI(), application(place, token="secret")
    other.get("/")(lambda: HTMLResponse("<!doctype html><title>other</title>"))
    with serving(app) as address, serving(other) as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}?token=secret")
        ready(page)
        statuses = []
        page = context.new_page()
        page.goto(site)  # another port of the same host: the cookie is sent
        page.on("response", lambda answer: answer.url != site and statuses.append(answer.status))
        seen = page.evaluate(
            """async (address) => {
                const load = (kind, key, path) => new Promise((done) => {
                    const node = document.createElement(kind);
                    node.onload = () => done(true);
                    node.onerror = () => done(false);
                    node[key] = address + path;
                    document.body.append(node);
                });
                const fetched = (options) => fetch(address + "api/runs", options)
                    .then((answer) => answer.text())
                    .then((text) => text.includes("state"), () => false);
                await load("iframe", "src", "");
                return [await load("script", "src", "page/api.js"),
                    await load("img", "src", "page/icon.svg"),
                    await fetched({credentials: "include"}), await fetched({mode: "no-cors"}),
                    await fetched({method: "POST", mode: "no-cors", body: "x"})];
            }""",
            address,
        )
        assert seen == [False] * 5
        assert statuses and set(statuses) == {403}
        context.close()


@pytest.fixture(scope="session")
def copied(explored, tmp_path_factory):
    """The address of a copy of two runs, one of them with clusters and groups."""
    out, paths = explored
    place = Gallery.find([str(paths["plain"]), str(paths["grouped"])], out)
    folder = tmp_path_factory.mktemp("copied") / "shown"
    with ThreadPoolExecutor(1) as aside:  # the browser's driver occupies this thread's event loop
        return aside.submit(write_copy, place, folder, quiet=True).result().as_uri()


def ready(page):
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator("#content > *").first).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()


def look(page, view, run, state=""):
    """Go to a view of a run."""
    page.goto(f"{page.url.partition('#')[0]}#/{view}/{run}{state}")
    expect(page.locator(f"[data-shown='{view}/{run}']")).to_be_visible()
    ready(page)


def pixels(page, selector):
    """What is seen there."""
    return page.locator(selector).first.screenshot()


def widest(page):
    return page.evaluate("document.documentElement.scrollWidth")


def names(explored):
    return {kind: path.name for kind, path in explored[1].items()}


@pytest.mark.parametrize("kind", ["live", "copied"])
def test_every_view_shows_something(visit, explored, request, kind):
    page = visit(request.getfixturevalue(kind))
    assert page.locator("#copy").is_visible() == (kind == "copied")
    run = names(explored)
    shown = [(view, run["plain"]) for view in VIEWS]
    shown += [(view, run["grouped"]) for view in ("latents", "between", "space")]
    for view, name in shown:
        look(page, view, name)
        assert page.locator("#content :is(canvas, img, svg, table)").count()
        assert page.locator("h1:visible").count() == 1


def test_a_slider_changes_the_image_and_the_address_and_can_be_reset(visit, live, explored):
    page = visit(f"{live}#/latents/{names(explored)['plain']}")
    before = pixels(page, ".decoded canvas")
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("move="))
    low = slider.get_attribute("min")
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", low)
    settled(page)
    there = pixels(page, ".decoded canvas")
    shared = page.url
    page.get_by_role("button", name="Reset all").click()
    settled(page)
    assert pixels(page, ".decoded canvas") == before != there
    page.goto("about:blank")
    page.goto(shared)
    ready(page)
    settled(page)
    assert pixels(page, ".decoded canvas") == there


def settled(page):
    """Wait until the page has asked for everything and drawn it."""
    page.wait_for_timeout(250)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(50)


def test_requests_of_a_dragged_slider_are_coalesced(visit, live, explored):
    page = visit(f"{live}#/latents/{names(explored)['plain']}")
    asked, busiest, open_now = [], [0], set()

    def began(request):
        if "decode.png" in request.url:
            asked.append(request.url)
            open_now.add(request)
            busiest[0] = max(busiest[0], len(open_now))

    page.on("request", began)
    page.on("requestfinished", lambda request: open_now.discard(request))
    page.get_by_role("slider").first.evaluate(
        """slider => {
            for (let k = 0; k < 200; k += 1) {
                slider.value = slider.min * (1 - k / 100);
                slider.dispatchEvent(new Event("input"));
            }
        }"""
    )
    settled(page)
    assert 1 <= len(asked) < 20 and busiest[0] == 1
    value = page.locator(".value").first.get_attribute("title").replace("−", "-")
    assert asked[-1].partition("code=")[2].split(",").count(value)


def test_start_from_the_prior_and_from_a_picture(visit, live, explored):
    page = visit(f"{live}#/latents/{names(explored)['plain']}")
    page.get_by_role("button", name="the prior").click()
    expect(page.locator(".origin")).to_contain_text("draw 1 from the prior")
    stream = io.BytesIO()
    Image.new("RGB", (90, 60), "white").save(stream, "PNG")
    picture = {"name": "white.png", "mimeType": "image/png", "buffer": stream.getvalue()}
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.locator(".origin")).to_contain_text("your picture")
    expect(page.locator(".from .note")).not_to_be_empty()
    expect(page).to_have_url(re.compile("code="))


def test_a_file_that_is_no_picture_is_refused_in_the_page(visit, live, explored):
    page = visit(f"{live}#/latents/{names(explored)['plain']}")
    text = {"name": "a.png", "mimeType": "image/png", "buffer": b"no picture"}
    page.locator("input[type=file]").set_input_files(text)
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible()
    expect(alert).to_contain_text("picture")
    page.get_by_role("button", name="the prior").click()
    expect(alert).to_be_hidden()
    assert len(visit.wrong) == 1 and "422" in visit.wrong.pop()  # the browser notes it, too


def measured(page, word):
    """The numbers of all cards that follow a word."""
    texts = page.locator(".pair figcaption").all_inner_texts()
    return [float(text.split(f"{word} ")[1].split(" ")[0].replace("−", "-")) for text in texts]


def test_images_are_sorted_enlarged_and_lead_to_the_latents(visit, live, explored):
    page = visit(f"{live}#/images/{names(explored)['plain']}")
    expect(page.locator(".progress")).to_contain_text("300 of 737,280 examples are measured")
    likelihoods = measured(page, "log-likelihood")
    assert len(likelihoods) == 24 and likelihoods == sorted(likelihoods)
    expect(page.locator(".pair").first).to_contain_text(re.compile("shape (square|ellipse|heart)"))
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".pair")).to_have_count(48)
    page.get_by_label("Order").select_option("worst")
    expect(page).to_have_url(re.compile("order=worst"))
    settled(page)
    errors = measured(page, "error")
    assert len(errors) == 24 and errors == sorted(errors, reverse=True)
    page.get_by_role("button", name=re.compile("Enlarge")).first.click()
    large = page.get_by_role("dialog")
    expect(large.locator("img").first).to_be_visible()
    assert large.locator("img").first.bounding_box()["width"] > 150
    before = large.locator("figcaption").first.inner_text()
    page.keyboard.press("ArrowRight")
    assert large.locator("figcaption").first.inner_text() != before
    page.keyboard.press("Escape")
    expect(large).to_be_hidden()
    page.locator(".pair a").first.click()
    expect(page.locator("nav a[aria-current]")).to_have_text("Latents")


def test_a_value_of_a_latent_is_typed(visit, live, explored):
    page = visit(f"{live}#/latents/{names(explored)['plain']}")
    value = page.locator(".value").first
    for typed, shown in (("−1.5", "−1.50"), ("0,25", "0.25"), ("one", "0.25"), ("1e9", "0.25")):
        value.fill(typed)
        value.press("Enter")
        expect(value).to_have_value(shown)
    expect(page).to_have_url(re.compile(r"move=\d+:0\.25"))
    widths = page.locator(".value:visible").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().right)"
    )
    assert len(set(widths)) == 1  # values stand below each other


def test_between_two_images(visit, live, explored):
    page = visit(f"{live}#/between/{names(explored)['plain']}")
    expect(page.locator(".end figcaption").first).to_have_text(re.compile(r"^From Example \d+$"))
    slider = page.get_by_role("slider", name="Position on the path")
    middle = pixels(page, ".large canvas")
    slider.focus()
    page.keyboard.press("End")
    assert pixels(page, ".large canvas") != middle
    page.get_by_role("group", name="To").get_by_role("button").nth(5).click()
    expect(page).to_have_url(re.compile("to="))
    expect(page.locator(".way canvas")).to_have_count(9)


def test_clusters_and_groups(visit, live, explored):
    page = visit(f"{live}#/between/{names(explored)['clustered']}")
    assert 1 <= page.locator(".cluster").count() <= 3
    look(page, "between", names(explored)["grouped"])
    grid = pixels(page, ".axes canvas")
    page.get_by_role("button", name="Resample").first.click()
    settled(page)
    assert pixels(page, ".axes canvas") != grid


def test_dots_are_pointed_at_and_selected(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}")
    area = page.locator(".plot canvas").bounding_box()
    page.mouse.move(area["x"] + 2, area["y"] + 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] - 2, steps=4)
    page.mouse.up()
    panel = page.locator(".selection")
    expect(panel).to_contain_text("dots selected")
    expect(panel.locator(".mean img")).to_be_visible()
    expect(panel).to_contain_text("deviations")
    panel.get_by_role("button", name="Clear").click()
    expect(panel).not_to_contain_text("selected")
    page.get_by_label("Place by").select_option("latents")
    expect(page.locator(".scatter .across")).to_contain_text("latent")
    page.get_by_label("Colour by").select_option("shape")
    expect(page.locator(".legend")).to_contain_text("shape")
    page.get_by_role("button", name="Select all with shape heart").click()
    expect(panel).to_contain_text("dots selected")
    expect(panel).to_contain_text("shape = heart: 100 % of them")


def test_a_selection_is_in_the_address_and_a_file(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}?colour=shape")
    page.get_by_role("button", name="Select all with shape square").click()
    head = page.locator(".selection h3")
    expect(head).to_contain_text("dots selected")
    told = head.inner_text().split(" ")[0]
    expect(page).to_have_url(re.compile("bits="))
    shared = page.url
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("row,shape,scale,orientation,position x,position y,")
    assert len(lines) == int(told.replace(",", "")) + 1
    assert {line.split(",")[1] for line in lines[1:]} == {"square"}
    page.goto("about:blank")
    page.goto(shared)
    ready(page)
    expect(head).to_contain_text(f"{told} dots selected")
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Find dots").fill(lines[1].split(",")[0])
    expect(head).to_contain_text("1 dot selected")
    expect(page).to_have_url(re.compile(f"chosen={lines[1].split(',')[0]}$"))
    page.get_by_label("Find dots").fill("scale 3")
    expect(page.locator(".selection")).to_contain_text("scale = 3: 100 % of them")
    expect(page.locator(".controls")).to_contain_text("of the 5,000 dots shown")
    page.get_by_label("Find dots").fill("nothing")
    expect(page.locator(".controls")).to_contain_text("None of the 5,000 dots shown matches")


def test_the_plot_is_zoomed_and_moved(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}")
    canvas = page.locator(".plot canvas")
    settled(page)
    whole = canvas.screenshot()
    area = canvas.bounding_box()
    page.mouse.move(area["x"] + 100, area["y"] + 100)
    page.mouse.wheel(0, -600)
    expect(page).to_have_url(re.compile("view="))
    settled(page)
    near, shared = canvas.screenshot(), page.url
    assert near != whole
    canvas.focus()
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("view="))
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("view=1.5,"))
    before = page.url
    page.keyboard.press("Shift+ArrowRight")
    expect(page).not_to_have_url(before)
    page.get_by_role("button", name="Show all dots").click()
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Move").click()
    before = page.url
    page.mouse.move(area["x"] + 100, area["y"] + 100)
    page.mouse.down()
    page.mouse.move(area["x"] + 180, area["y"] + 140, steps=3)
    page.mouse.up()
    expect(page).not_to_have_url(before)
    expect(page.locator(".selection")).not_to_contain_text("selected")
    page.goto("about:blank")
    page.goto(shared)
    ready(page)
    expect(page).to_have_url(re.compile("view="))


def test_two_fingers_zoom(visit, live, explored):
    phone = {"width": 360, "height": 740}
    page = visit(f"{live}#/space/{names(explored)['plain']}", viewport=phone, has_touch=True)
    expect(page.locator(".selection")).to_contain_text("Pinch to zoom")
    area = page.locator(".plot canvas").bounding_box()
    x, y = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
    page.locator(".plot").scroll_into_view_if_needed()
    page.locator(".plot canvas").evaluate(
        """(canvas, [x, y]) => {
            const fire = (type, id, dx) => canvas.dispatchEvent(new PointerEvent(type,
                {pointerId: id, pointerType: "touch", clientX: x + dx, clientY: y, bubbles: true}));
            fire("pointerdown", 1, -20), fire("pointerdown", 2, 20);
            for (const dx of [30, 45, 60]) fire("pointermove", 1, -dx), fire("pointermove", 2, dx);
            fire("pointerup", 1, -60), fire("pointerup", 2, 60);
        }""",
        [x, y],
    )
    expect(page).to_have_url(re.compile(r"view=[23]"))
    expect(page.locator(".selection")).not_to_contain_text("selected")


def test_dots_are_coloured_by_anything_and_drawn_as_images(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}?colour=shape&dots=1000")
    canvas, legend = page.locator(".plot canvas"), page.locator(".legend")
    seen = []
    for name in ("shape", "scale", "log_likelihood", "kl", "error", "z0"):
        page.get_by_label("Colour by").select_option(name)
        expect(page).to_have_url(re.compile(f"colour={name}"))
        expect(legend.locator("b")).to_contain_text(name.replace("_", "-"), ignore_case=True)
        expect(legend.locator(".busy")).to_have_count(0)
        has_levels = name in ("shape", "scale")  # a colour to choose, of which the hint speaks
        assert ("choose a colour" in page.locator(".selection").inner_text()) == has_levels
        settled(page)
        seen.append(canvas.screenshot())
    assert len(set(seen)) == len(seen)
    page.get_by_role("button", name="Images as dots").click()
    settled(page)
    assert canvas.screenshot() != seen[-1]
    expect(page).to_have_url(re.compile("images=1"))


def test_more_than_a_thousand_dots(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}")
    expect(page.locator("section")).to_contain_text("5,000 of 737,280 examples")
    page.locator("label", has_text=re.compile("^Dots")).locator("select").select_option("1000")
    expect(page.locator("section")).to_contain_text("1,000 of 737,280 examples")


def test_axes_are_not_named_while_they_are_computed(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['plain']}?dots=1000")
    page.route(
        "**/space?by=latents*", lambda route: (page.wait_for_timeout(300), route.continue_())
    )
    page.get_by_label("Place by").select_option("latents")
    expect(page.locator(".scatter .up")).to_have_text("Computing …")
    expect(page.locator(".scatter .across")).to_have_text("")
    expect(page.locator(".scatter .across")).to_contain_text("latent")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ordered_colours_are_legible_at_both_ends(visit, live, explored, scheme):
    page = visit(f"{live}#/space/{names(explored)['plain']}?colour=scale", color_scheme=scheme)
    shades = page.locator(".legend .level i").evaluate_all(
        "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    card = page.locator(".card").first.evaluate("e => getComputedStyle(e).backgroundColor")
    assert len(set(shades)) == 6  # a palette of their own, in order
    light = [luminance(shade) for shade in shades]
    assert light == sorted(light)
    ground = luminance(card)
    for shade in light:
        assert (max(shade, ground) + 0.05) / (min(shade, ground) + 0.05) > 2.5


def luminance(colour):
    """The relative luminance of a colour written as rgb(r, g, b)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_dots_are_reached_with_the_keyboard(visit, live, explored):
    page = visit(f"{live}#/space/{names(explored)['clustered']}")
    page.locator(".plot canvas").focus()
    words = page.locator(".beside > p")
    before = words.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert words.inner_text() != before
    page.keyboard.press("Space")
    expect(page.locator(".selection")).to_contain_text("1 dot selected")
    page.keyboard.press("Escape")
    expect(page.locator(".selection")).not_to_contain_text("selected")


def test_a_cell_of_the_matrix_shows_its_traversal_and_leads_to_the_slider(visit, live, explored):
    page = visit(f"{live}#/factors/{names(explored)['plain']}")
    page.get_by_role("button", name=re.compile("knows .* of scale")).first.click()
    expect(page.locator(".explained .film")).to_have_count(3)
    expect(page.locator(".score")).to_have_count(2)
    expect(page.locator(".question")).to_have_text(
        ["How well are the factors separated?", "How well are examples drawn?"]
    )
    heads = page.locator(".matrix thead th").evaluate_all("all => all.map(e => e.offsetWidth)")
    assert max(heads) - min(heads) <= 1
    page.get_by_role("link", name="Move it with the slider").click()
    ready(page)
    assert page.locator(".pointed input[type=range]").evaluate("e => e === document.activeElement")


def test_a_run_without_scores_says_what_to_run(visit, live, explored):
    run = names(explored)["grouped"]
    page = visit(f"{live}#/factors/{run}")
    expect(page.locator(".empty pre")).to_have_text(f"untwine evaluate {run}")


@pytest.mark.parametrize("kind", ["live", "copied"])
def test_one_slider_moves_two_runs(visit, explored, request, kind):
    page = visit(request.getfixturevalue(kind))
    run = names(explored)
    look(page, "compare", run["plain"], f"?with={run['grouped']}&by=rank")
    sides = [".versus > :first-child canvas", ".versus > :last-child canvas"]
    before = [pixels(page, side) for side in sides]
    page.get_by_role("slider").first.focus()
    page.keyboard.press("Home")
    settled(page)
    low = [pixels(page, side) for side in sides]
    page.keyboard.press("End")
    settled(page)
    for side, first, second in zip(sides, before, low, strict=True):
        assert len({first, second, pixels(page, side)}) > 1


def test_a_latent_of_the_second_run_is_flipped(visit, live, explored):
    run = names(explored)
    page = visit(f"{live}#/compare/{run['plain']}?with={run['grouped']}&by=rank")
    settled(page)
    films = [f".linked .reel:nth-child({k}) .film" for k in (2, 3)]
    before = [pixels(page, film) for film in films]
    page.get_by_role("button", name=re.compile("Flip .* of B")).first.click()
    settled(page)
    after = [pixels(page, film) for film in films]
    assert after[0] == before[0] and after[1] != before[1]


def test_the_study_is_filtered_sorted_and_leads_to_runs(visit, live, explored):
    page = visit(f"{live}#/study/")
    rows = page.locator(".runs tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Find").fill("ug-vae")
    expect(rows).to_have_count(1)
    page.get_by_label("Find").fill("")
    page.get_by_role("button", name="run", exact=True).click()
    first = rows.first.inner_text()
    page.get_by_role("button", name="run", exact=True).click()
    assert rows.last.inner_text() == first
    rows.first.get_by_role("link").click()
    ready(page)
    expect(page.locator("nav a[aria-current]")).to_have_text("Latents")


@pytest.mark.parametrize("kind", ["live", "copied"])
def test_nothing_is_wider_than_a_phone_and_it_has_a_dark_side(visit, explored, request, kind):
    phone = {"width": 360, "height": 740}
    page = visit(request.getfixturevalue(kind), viewport=phone, color_scheme="dark")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", colour)[:3]) < 60
    for view in VIEWS:
        look(page, view, names(explored)["plain"])
        assert widest(page) == 360, view


def test_a_copy_moves_one_latent_at_a_time(visit, copied, explored):
    page = visit(f"{copied}#/latents/{names(explored)['plain']}")
    assert not page.locator("input[type=file]").count()
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("Home")
    settled(page)
    low = pixels(page, ".decoded canvas")
    page.keyboard.press("End")
    settled(page)
    assert pixels(page, ".decoded canvas") != low
    shown = page.locator(".value").first.input_value()
    assert float(shown) == float(slider.get_attribute("max"))


def test_everything_is_named_and_can_be_reached_by_the_keyboard(visit, live, explored):
    page = visit(live)
    nameless = """() => [...document.querySelectorAll("a, button, select, input, canvas, img, svg")]
        .filter(e => e.checkVisibility() && !e.closest("[aria-hidden]"))
        .filter(e => !e.ariaLabel && !e.textContent.trim() && !e.labels?.length)
        .filter(e => !e.hasAttribute("alt") && !e.querySelector("img[alt]"))
        .map(e => e.outerHTML)"""
    for view in VIEWS:
        look(page, view, names(explored)["plain"])
        assert page.evaluate(nameless) == [], view
    page.keyboard.press("Tab")
    look(page, "latents", names(explored)["plain"])
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.tagName + (document.activeElement.type ?? '')")
        )
    assert {"A", "BUTTONbutton", "INPUTrange", "INPUTtext", "SELECTselect-one"} <= reached


def test_what_fails_is_said_in_the_page(visit, live, explored):
    page = visit(f"{live}#/latents/nowhere")
    expect(page.locator("#content").get_by_role("alert")).to_contain_text("no run nowhere")
