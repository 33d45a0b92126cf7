"""Write the generated pages, and the generated tables of the README and other pages.

python docs/generate.py            write
python docs/generate.py --check    list what is out of date, and exit with 1 if anything is
python docs/generate.py --sheets   also render the contact sheets of the datasets (minutes)
python docs/generate.py --reproductions DIR   also copy the results of `untwine reproduce` into the
                                   pages of reproductions/, between the markers of each item
"""

import re
import shutil
import sys
from pathlib import Path

from untwine.catalogue import pairs
from untwine.catalogue.entries import KINDS, entry_page, markdown_table

ROOT = Path(__file__).parent.parent
REPRODUCTIONS = ROOT / "docs" / "reproductions"
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
    text = (ROOT / "docs" / "data.md").read_text("utf-8")
    sheets = "\n\n".join(
        f"`{dataset}`\n\n![{dataset}](sheets/{name}.png)" for name, dataset in SHEETS.items()
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
        text = (page / "results.md").read_text("utf-8")
        for file in re.findall(r"\(figures/([^)]+\.png)\)", text):
            name = f"{paper}-{item}{ending}-{file}"
            shutil.copy(page / "figures" / file, REPRODUCTIONS / "figures" / name)
            text = text.replace(f"(figures/{file})", f"(figures/{name})")
        texts.append(text if not ending else text.replace("## ", "### With stand-ins, "))
    return "\n".join(texts)


def fill_reproductions(folder: Path) -> None:
    (REPRODUCTIONS / "figures").mkdir(exist_ok=True)
    for page in sorted(REPRODUCTIONS.glob("*.md")):
        text = page.read_text("utf-8")
        for address in re.findall(r"<!-- ([\w-]+/[\w-]+) -->", text):
            block = f"<!-- {address} -->\n{item_results(address, folder)}<!-- /{address} -->"
            marked = rf"<!-- {address} -->.*?<!-- /{address} -->"
            text = re.sub(marked, lambda _, new=block: new, text, flags=re.DOTALL)
        page.write_text(text, "utf-8")
        print(f"filled {page.relative_to(ROOT)}")


def items() -> str:
    """The page on reproductions with an up-to-date list of items."""
    from untwine.reproduce.items import all_items

    text = (REPRODUCTIONS / "README.md").read_text("utf-8")
    rows = [f"| `{i.address}` | {i.title} | {i.minutes:g} min |" for i in all_items()]
    table = "\n".join(["| item | what it shows | laptop, two cores |", "|---|---|---|", *rows])
    block = f"<!-- items -->\n{table}\n<!-- /items -->"
    return re.sub(r"<!-- items -->.*?<!-- /items -->", lambda _: block, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """The content of every generated page."""
    texts = {ROOT / "docs" / f"{kind}.md": entry_page(kind) for kind in KINDS}
    texts[ROOT / "docs" / "compositions.md"] = pairs.pair_page()
    texts[REPRODUCTIONS / "README.md"] = items()
    return {ROOT / "README.md": readme(), ROOT / "docs" / "data.md": data(), **texts}


def main() -> int:
    texts = pages()
    stale = [
        path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run: make docs")
        return 1 if stale else 0
    if "--sheets" in sys.argv:
        draw_sheets()
    if "--reproductions" in sys.argv:
        fill_reproductions(Path(sys.argv[sys.argv.index("--reproductions") + 1]))
    for path in stale:
        path.write_text(texts[path], "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
