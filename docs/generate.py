"""Write what the registries know into the README and the pages beside this file.

python docs/generate.py            writes
python docs/generate.py --check    says what is out of date, and exits with 1
python docs/generate.py --sheets   also draws the contact sheets of the datasets, in minutes
python docs/generate.py --reproductions DIR   also puts results of `untwine reproduce` into the
                                   pages of reproductions/, between the markers of each item
"""

import re
import shutil
import sys
from pathlib import Path

from untwine import compositions
from untwine.catalogue import KINDS, markdown_page, markdown_table

ROOT = Path(__file__).parent.parent
REPRODUCTIONS = ROOT / "docs" / "reproductions"
SHEETS = {  # what is drawn for each dataset that needs no files
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
    """The README with a fresh table between its markers."""
    text = (ROOT / "README.md").read_text("utf-8")
    table = f"<!-- models -->\n{markdown_table('models')}\n<!-- /models -->"
    return re.sub(r"<!-- models -->.*?<!-- /models -->", lambda _: table, text, flags=re.DOTALL)


def data() -> str:
    """The page on data with its sheets between the markers."""
    text = (ROOT / "docs" / "data.md").read_text("utf-8")
    shown = "\n\n".join(
        f"`{what}`\n\n![{what}](sheets/{name}.png)" for name, what in SHEETS.items()
    )
    block = f"<!-- sheets -->\n{shown}\n<!-- /sheets -->"
    return re.sub(r"<!-- sheets -->.*?<!-- /sheets -->", lambda _: block, text, flags=re.DOTALL)


def draw_sheets() -> None:
    from untwine.library import look

    for name, what in SHEETS.items():
        print(f"drew {look(what, out=ROOT / 'docs' / 'sheets' / f'{name}.png').relative_to(ROOT)}")


def results(address: str, kept: Path) -> str:
    """What an item's pages say, on real data and then on stand-ins; figures are copied."""
    paper, item = address.split("/")
    found: list[str] = []
    for ending in ("", "-stand-ins"):
        folder = kept / paper / f"{item}-laptop{ending}"
        if not (folder / "results.md").exists():
            continue
        text = (folder / "results.md").read_text("utf-8")
        for file in re.findall(r"\(figures/([^)]+\.png)\)", text):
            name = f"{paper}-{item}{ending}-{file}"
            shutil.copy(folder / "figures" / file, REPRODUCTIONS / "figures" / name)
            text = text.replace(f"(figures/{file})", f"(figures/{name})")
        found.append(text if not ending else text.replace("## ", "### With stand-ins, "))
    return "\n".join(found)


def fill_reproductions(kept: Path) -> None:
    (REPRODUCTIONS / "figures").mkdir(exist_ok=True)
    for page in sorted(REPRODUCTIONS.glob("*.md")):
        text = page.read_text("utf-8")
        for address in re.findall(r"<!-- ([\w-]+/[\w-]+) -->", text):
            block = f"<!-- {address} -->\n{results(address, kept)}<!-- /{address} -->"
            marked = rf"<!-- {address} -->.*?<!-- /{address} -->"
            text = re.sub(marked, lambda _, new=block: new, text, flags=re.DOTALL)
        page.write_text(text, "utf-8")
        print(f"filled {page.relative_to(ROOT)}")


def items() -> str:
    """The page on reproductions with a fresh list between its markers."""
    from untwine.reproduction import all_items

    text = (REPRODUCTIONS / "README.md").read_text("utf-8")
    rows = [f"| `{i.address}` | {i.title} | {i.minutes:g} min |" for i in all_items()]
    table = "\n".join(["| item | what it shows | laptop, two cores |", "|---|---|---|", *rows])
    block = f"<!-- items -->\n{table}\n<!-- /items -->"
    return re.sub(r"<!-- items -->.*?<!-- /items -->", lambda _: block, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    made = {ROOT / "docs" / f"{kind}.md": markdown_page(kind) for kind in KINDS}
    made[ROOT / "docs" / "compositions.md"] = compositions.markdown()
    made[REPRODUCTIONS / "README.md"] = items()
    return {ROOT / "README.md": readme(), ROOT / "docs" / "data.md": data(), **made}


def main() -> int:
    made = pages()
    stale = [
        path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text
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
        path.write_text(made[path], "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
