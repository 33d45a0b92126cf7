"""Write what the registries know into the README and the pages beside this file.

python docs/generate.py            writes
python docs/generate.py --check    says what is out of date, and exits with 1
python docs/generate.py --sheets   also draws the contact sheets of the datasets, in minutes
"""

import re
import sys
from pathlib import Path

from untwine import compositions
from untwine.catalogue import KINDS, markdown_page, markdown_table

ROOT = Path(__file__).parent.parent
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


def pages() -> dict[Path, str]:
    made = {ROOT / "docs" / f"{kind}.md": markdown_page(kind) for kind in KINDS}
    made[ROOT / "docs" / "compositions.md"] = compositions.markdown()
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
    for path in stale:
        path.write_text(made[path], "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
