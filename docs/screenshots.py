"""Take the screenshots of how-to/explorer.md, one per view.

python docs/screenshots.py SPRITES COLOURFUL OTHER CLUSTERS STUDY

The first four are finished runs: one on sprites, one on colour images, one to compare with the
first (same data), and one with clusters. STUDY is the directory of a study. Needs playwright and
Chromium.
"""

import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from untwine.explore.gallery import Gallery
from untwine.explore.server import application
from untwine.explore.serving import serve_in_thread

TARGET = Path(__file__).parent / "explorer"
WIDTH, HEIGHT = 1180, 800
HEIGHTS = {"between": 1080, "factors": 960, "space": 960}
PHONE = {"width": 360, "height": 720}
COLOURS = 200  # of a screenshot; fewer make smaller files


def main(arguments: Sequence[str]) -> None:
    """Take all screenshots."""
    if len(arguments) != 5:
        sys.exit(__doc__)
    *runs, study = arguments
    sprites, colourful, other, clusters = (Path(run).name for run in runs)
    TARGET.mkdir(exist_ok=True)
    with sync_playwright() as driver, serve_in_thread(gallery_app(runs)) as address:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        views = {
            "latents": f"latents/{colourful}",
            "images": f"images/{colourful}",
            "between": f"between/{clusters}",
            "space": f"space/{sprites}?by=latents&colour=position+x",
            "factors": f"factors/{sprites}?latent={{best}}&factor=scale",
            "compare": f"compare/{sprites}?with={other}",
        }
        best = most_informative_latent(sprites, runs, "scale")
        for name, view in views.items():
            take_screenshot(browser, f"{address}#/{view.format(best=best)}", name)
        dark: dict[str, Any] = {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 2}
        take_screenshot(browser, f"{address}#/latents/{colourful}", "phone", **dark)
        with serve_in_thread(gallery_app([study])) as address:
            take_screenshot(browser, f"{address}#/study/", "study")
            others = [path.name for path in sorted(Path(study, "runs").iterdir())]
            take_screenshot(
                browser, f"{address}#/curves/{others[0]}?with={','.join(others[1:5])}", "curves"
            )
        browser.close()


def most_informative_latent(name: str, runs: Sequence[str], factor: str) -> int:
    """The latent that tells most about a factor."""
    table = Gallery.find(runs, Path("runs")).view(name).factors()
    column = table.factors.index(factor)
    shares = [row[column] for row in table.matrix]
    return table.latents[shares.index(max(shares))]


def gallery_app(runs: Sequence[str]) -> FastAPI:
    """The explorer's server for these runs."""
    return application(Gallery.find(runs, Path("runs")))


def take_screenshot(browser: Browser, address: str, name: str, **settings: Any) -> None:
    """Store a screenshot of the page at an address."""
    desktop = {"width": WIDTH, "height": HEIGHTS.get(name, HEIGHT)}
    page = browser.new_page(**{"viewport": desktop, **settings})
    page.goto(address)
    page.locator("[data-shown]").wait_for(timeout=300_000)
    if name == "space":
        select_dots(page)
    if name == "phone":
        page.locator(".sliders").scroll_into_view_if_needed()
        page.mouse.wheel(0, 150)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)
    with Image.open(io.BytesIO(page.screenshot())) as screenshot:
        small = screenshot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(TARGET / f"{name}.png", optimize=True)
    page.close()


def select_dots(page: Page) -> None:
    """Drag over the dots at the left of the plot."""
    box = page.locator(".plot canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + box["height"] - 30, steps=5)
    page.mouse.up()
    page.locator(".selection .mean").wait_for()


if __name__ == "__main__":
    main(sys.argv[1:])
