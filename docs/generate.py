"""Write the generated pages, and the generated tables of the README and other pages.

python docs/generate.py            write
python docs/generate.py --check    list what is out of date, and exit with 1 if anything is
python docs/generate.py --sheets   also render the contact sheets of the datasets (minutes)
python docs/generate.py --reproductions DIR   also copy the results of `untwine reproduce` into the
                                   pages of reproductions/, between the markers of each item
python docs/generate.py --results [PAPER ...]   also rebuild the items of these papers in trial, or
                                   of all, from the tables in reproductions/results

The picture of all verdicts is drawn again when a verdict has changed.
"""

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import manual

from untwine.catalogue import pairs
from untwine.catalogue.entries import KINDS, entry_page, markdown_table
from untwine.reproduce.page import without_photographs

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
REPRODUCTIONS = ROOT / "docs" / "reproductions"
RESULTS = REPRODUCTIONS / "results"
VERDICTS = REPRODUCTIONS / "figures" / "verdicts.png"
SHEETS = {  # file name: dataset, for each dataset that needs no files
    "sprites": "sprites",
    "colour-dsprites": "colour-dsprites",
    "noisy-dsprites": "noisy-dsprites",
    "scream-dsprites": "scream-dsprites",
    "shapes3d-render": "shapes3d-render",
    "faces": "faces(count=2000)",
    "faces-scan": "faces(count=2000, domain=scan)",
    "digits": "digits",
    "mnist-01": "mnist-01(of=digits)",
    "coloured-mnist": "coloured-mnist(of=digits)",
    "digit-series": "digit-series(of=digits)",
    "circle": "circle",
    "square": "square",
    "star": "star",
    "infinity": "infinity",
    "clusters": "clusters",
    "cross": "cross",
    "mixed": "mixed(first=faces(count=2000), second=faces(count=2000, domain=scan))",
    "grouped": "grouped(of=faces(count=2000), by=eyeglasses, level=1)",
    "correlated": "correlated(of=sprites, first=position x, second=position y)",
    "held-out": "held-out(of=sprites, combination=shape=2+scale=5)",
}


def readme() -> str:
    """The README with an up-to-date table of models."""
    text = (ROOT / "README.md").read_text("utf-8")
    table = f"<!-- models -->\n{markdown_table('models')}\n<!-- /models -->"
    return re.sub(r"<!-- models -->.*?<!-- /models -->", lambda _: table, text, flags=re.DOTALL)


def data() -> str:
    """The page on data with its contact sheets."""
    text = (ROOT / "docs" / "how-to" / "data.md").read_text("utf-8")
    sheets = "\n\n".join(
        f"`{dataset}`\n\n![{dataset}](../sheets/{name}.png)" for name, dataset in SHEETS.items()
    )
    block = f"<!-- sheets -->\n{sheets}\n<!-- /sheets -->"
    return re.sub(r"<!-- sheets -->.*?<!-- /sheets -->", lambda _: block, text, flags=re.DOTALL)


def draw_sheets() -> None:
    from untwine.catalogue.data import preview

    for name, dataset in SHEETS.items():
        path = preview(dataset, out=ROOT / "docs" / "sheets" / f"{name}.png")
        print(f"drew {path.relative_to(ROOT)}")


def item_results(address: str, folder: Path) -> str:
    """The results of an item, on real data and then on stand-ins; copies its figures."""
    paper, item = address.split("/")
    texts: list[str] = []
    for ending in ("", "-stand-ins"):
        page = folder / paper / f"{item}-laptop{ending}"
        if not (page / "results.md").exists():
            continue
        text = without_photographs((page / "results.md").read_text("utf-8"))
        for file in re.findall(r"\(figures/([^)]+\.png)\)", text):
            name = f"{paper}-{item}{ending}-{file}"
            shutil.copy(page / "figures" / file, REPRODUCTIONS / "figures" / name)
            text = text.replace(f"(figures/{file})", f"(figures/{name})")
        texts.append(text if not ending else text.replace("## ", "### With stand-ins, "))
    return "\n".join(texts)


def rebuilt_item(address: str) -> str:
    """The tables and figures of an item, rebuilt from the recorded tables; keeps its figures."""
    from untwine.reproduce.items import find_item
    from untwine.reproduce.page import rebuild_item

    with tempfile.TemporaryDirectory() as folder:
        text = rebuild_item(find_item(address), RESULTS, Path(folder))
        for file in re.findall(r"\(figures/([^)]+\.png)\)", text):
            name = f"{address.replace('/', '-')}-{file}"
            shutil.copy(Path(folder) / "figures" / file, REPRODUCTIONS / "figures" / name)
            text = text.replace(f"(figures/{file})", f"(figures/{name})")
    return text


def trial_papers() -> list[str]:
    from untwine.reproduce.items import paper_names, read_paper

    return [name for name in paper_names() if read_paper(name)["trial"]]


def require_published() -> None:
    """Refuse to draw pages again without the published runs that they show."""
    from untwine.reproduce.evidence import published_runs
    from untwine.reproduce.items import read_paper

    papers = [paper for name in trial_papers() if (paper := read_paper(name))["published"]]
    if missing := [paper.name for paper in papers if published_runs(paper) is None]:
        raise SystemExit(
            f"the published runs of {', '.join(missing)} are not in the data directory, and the "
            "pages would lose them; set UNTWINE_DATA to a directory that has them"
        )


def fill_reproductions(results: Callable[[str], str], papers: Iterable[str]) -> None:
    (REPRODUCTIONS / "figures").mkdir(exist_ok=True)
    for page in (REPRODUCTIONS / f"{name}.md" for name in papers):
        text = page.read_text("utf-8")
        for address in re.findall(r"<!-- ([\w-]+/[\w-]+) -->", text):
            text = filled(text, address, results(address).rstrip("\n"))
        page.write_text(text, "utf-8")
        print(f"filled {page.relative_to(ROOT)}")


def filled(text: str, mark: str, content: str) -> str:
    """A page with new content between two marks."""
    block = f"<!-- {mark} -->\n{content}\n<!-- /{mark} -->"
    marked = rf"<!-- {mark} -->.*?<!-- /{mark} -->"
    return re.sub(marked, lambda _: block, text, flags=re.DOTALL)


def verdicts_drawn() -> bool:
    """Whether the picture shows the verdicts as they are: it holds their counts."""
    from PIL import Image

    if not VERDICTS.exists():
        return False
    with Image.open(VERDICTS) as picture:
        return picture.info.get("Description") == verdict_counts()


def verdict_counts() -> str:
    """What the picture shows: how many claims of each paper have which verdict, by evidence."""
    from untwine.reproduce.overview import all_verdicts

    counts = Counter(
        f"{name}, {kind}, {finding.verdict}"
        for name, verdicts in all_verdicts(RESULTS).items()
        for v in verdicts
        for kind, finding in v.findings.items()
    )
    return "\n".join(f"{row}: {count}" for row, count in sorted(counts.items()))


def draw_verdicts() -> None:
    from matplotlib import rc_context

    from untwine.reproduce.overview import draw_matrix
    from untwine.tools.figures import STYLE

    with rc_context(STYLE):
        draw_matrix(RESULTS).savefig(
            VERDICTS, dpi=110, bbox_inches="tight", metadata={"Description": verdict_counts()}
        )
    print(f"drew {VERDICTS.relative_to(ROOT)}")


def items() -> str:
    """The page on reproductions with an up-to-date list of items."""
    from untwine.reproduce.items import all_items
    from untwine.reproduce.overview import matrix

    text = (REPRODUCTIONS / "README.md").read_text("utf-8")
    rows = [f"| `{i.address}` | {i.title} | {i.minutes:g} min |" for i in all_items()]
    table = "\n".join(["| item | what it shows | laptop, two cores |", "|---|---|---|", *rows])
    return filled(filled(text, "items", table), "verdicts", matrix(RESULTS))


def verdicts(name: str) -> str:
    """The page of a paper with an up-to-date table of verdicts."""
    from untwine.reproduce.overview import verdict_table

    text = (REPRODUCTIONS / f"{name}.md").read_text("utf-8")
    return filled(text, "verdicts", verdict_table(name, RESULTS))


def pages() -> dict[Path, str]:
    """The content of every generated page."""
    found = {"models": manual.trial_notes(RESULTS)}
    texts = {REFERENCE / f"{kind}.md": entry_page(kind, found.get(kind)) for kind in KINDS}
    texts[REFERENCE / "compositions.md"] = pairs.pair_page()
    texts |= {REFERENCE / name: page() for name, page in manual.PAGES.items()}
    texts[REPRODUCTIONS / "README.md"] = items()
    texts |= {REPRODUCTIONS / f"{name}.md": verdicts(name) for name in trial_papers()}
    return {ROOT / "README.md": readme(), ROOT / "docs" / "how-to" / "data.md": data(), **texts}


def main() -> int:
    if "--reproductions" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--reproductions") + 1])
        others = {p.stem for p in REPRODUCTIONS.glob("*.md")} - {"README", *trial_papers()}
        fill_reproductions(lambda address: item_results(address, folder), sorted(others))
    if "--results" in sys.argv:
        require_published()
        named = [word for word in sys.argv[sys.argv.index("--results") + 1 :] if word[0] != "-"]
        fill_reproductions(rebuilt_item, named or trial_papers())
    texts = pages()
    stale = [
        path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    drawn = verdicts_drawn()
    if "--check" in sys.argv:
        for path in [*stale, *([] if drawn else [VERDICTS])]:
            print(f"{path.relative_to(ROOT)} is out of date; run: make docs")
        return 0 if drawn and not stale else 1
    if "--sheets" in sys.argv:
        draw_sheets()
    if not drawn:
        draw_verdicts()
    for path in stale:
        path.write_text(texts[path], "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
