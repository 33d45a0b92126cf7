"""Take the pictures of explorer.md: each view of the explorer in a browser.

python docs/screenshots.py SPRITES COLOURFUL OTHER CLUSTERS STUDY

All but the last are finished runs: one on sprites, one on coloured images, one on the data of the
first to compare with it, one with clusters. STUDY is the directory of a study. Needs playwright and
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

from untwine.explore.place import Place
from untwine.explore.server import application, serving

TARGET = Path(__file__).parent / "explorer"
WIDTH, HEIGHT = 1180, 800
TALLER = {"between": 1080, "factors": 960, "space": 960}
PHONE = {"width": 360, "height": 720}
COLOURS = 200  # of a picture: fewer make small files


def main(arguments: Sequence[str]) -> None:
    """Take all pictures."""
    if len(arguments) != 5:
        sys.exit(__doc__)
    *runs, study = arguments
    sprites, colourful, other, clusters = (Path(run).name for run in runs)
    TARGET.mkdir(exist_ok=True)
    with sync_playwright() as driver, serving(shown(runs)) as address:
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
        best = knows(sprites, runs, "scale")
        for name, view in views.items():
            take(browser, f"{address}#/{view.format(best=best)}", name)
        dark: dict[str, Any] = {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 2}
        take(browser, f"{address}#/latents/{colourful}", "phone", **dark)
        with serving(shown([study])) as address:
            take(browser, f"{address}#/study/", "study")
        browser.close()


def knows(name: str, runs: Sequence[str], factor: str) -> int:
    """The latent of a run that knows most of a factor."""
    table = Place.found(runs, Path("runs")).look(name).factors()
    column = table.factors.index(factor)
    shares = [row[column] for row in table.matrix]
    return table.latents[shares.index(max(shares))]


def shown(runs: Sequence[str]) -> FastAPI:
    """The service for these runs."""
    return application(Place.found(runs, Path("runs")))


def take(browser: Browser, address: str, name: str, **settings: Any) -> None:
    """One picture of what is seen at an address."""
    desk = {"width": WIDTH, "height": TALLER.get(name, HEIGHT)}
    page = browser.new_page(**{"viewport": desk, **settings})
    page.goto(address)
    page.locator("[data-shown]").wait_for(timeout=300_000)
    if name == "space":
        select(page)
    if name == "phone":
        page.locator(".sliders").scroll_into_view_if_needed()
        page.mouse.wheel(0, 150)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(TARGET / f"{name}.png", optimize=True)
    page.close()


def select(page: Page) -> None:
    """Drag over dots at the left of the plot."""
    box = page.locator(".plot svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + box["height"] - 30, steps=5)
    page.mouse.up()
    page.locator(".selection .mean").wait_for()


if __name__ == "__main__":
    main(sys.argv[1:])
