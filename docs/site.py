"""Build the documentation site from the Markdown pages, offline, and check every link.

python docs/site.py          writes site/; open site/index.html

The pages are staged at the places they have in the project, with the files they link to, so that
the same links work here and in the project. `zensical.toml` lists the pages.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
STAGE, SITE = ROOT / "build" / "pages", ROOT / "site"
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md")
ASSETS = ("docs/assets/site.css", "src/untwine/explore/page/icon.svg")  # of zensical.toml
LINK = re.compile(r"(?:\]\(|src=\")(?!https?:|mailto:|data:|#)([^)\"#\s]+)")
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_LOADED = {"canonical", "next", "prev"}  # relations of <link> that name an address alone


def main() -> int:
    """Stage, build and check; print what is wrong and return 1 if anything is."""
    stage(ROOT, STAGE)
    shutil.rmtree(SITE, ignore_errors=True)
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if (status := subprocess.run(build, cwd=ROOT).returncode) != 0:  # noqa: S603
        return status
    problems = [*unlisted(ROOT), *broken(SITE)]
    print("\n".join(problems) or f"{SITE / 'index.html'}")
    return 1 if problems else 0


def stage(root: Path, target: Path) -> None:
    """Copy the pages of a project and the files they link to, each to its own place."""
    shutil.rmtree(target, ignore_errors=True)
    for file in sorted(linked_files(root)):
        copy = target / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def linked_files(root: Path) -> set[Path]:
    """The pages of a project, and the files that they link to."""
    pages = {page for pattern in PAGES for page in root.glob(pattern)}
    files = pages | {root / name for name in ASSETS}
    for page in pages:
        for target in LINK.findall(page.read_text("utf-8")):
            file = (page.parent / target).resolve()
            files |= {file} if file.is_file() and file.is_relative_to(root) else set()
    return files


def unlisted(root: Path) -> Iterator[str]:
    """Pages that the navigation of the site does not name."""
    listed = (root / "zensical.toml").read_text("utf-8")
    for page in sorted(page for pattern in PAGES for page in root.glob(pattern)):
        name = page.relative_to(root).as_posix()
        if f'"{name}"' not in listed:
            yield f"{name} is not in the navigation; add it to zensical.toml"


class Document(HTMLParser):
    """The links of a page, what it loads, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in NOT_LOADED:
            self.loads.append(values[LOADED[tag]])


def broken(site: Path) -> Iterator[str]:
    """Links that lead nowhere, and what pages load from other hosts."""
    documents = {
        page: Document(page.read_text("utf-8"))
        for page in sorted(site.rglob("*.html"))
        if page.name != "404.html"  # served at any address, so that its own are absolute
    }
    for page, document in documents.items():
        name = page.relative_to(site)
        for address in document.loads:
            if urlsplit(address).netloc:
                yield f"{name} loads {address} from another host"
        for address in (*document.links, *document.loads):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file():
                yield f"{name} links to {address}, which does not exist"
            elif parts.fragment and target in documents:
                if unquote(parts.fragment) not in documents[target].places:
                    yield f"{name} links to {address}, which has no such place"


if __name__ == "__main__":
    sys.exit(main())
