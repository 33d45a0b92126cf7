"""Write what the registries know into the README and the pages beside this file.

python docs/generate.py           writes
python docs/generate.py --check   says what is out of date, and exits with 1
"""

import re
import sys
from pathlib import Path

from untwine import compositions
from untwine.catalogue import KINDS, markdown_page, markdown_table

ROOT = Path(__file__).parent.parent


def readme() -> str:
    """The README with a fresh table between its markers."""
    text = (ROOT / "README.md").read_text("utf-8")
    table = f"<!-- models -->\n{markdown_table('models')}\n<!-- /models -->"
    return re.sub(r"<!-- models -->.*?<!-- /models -->", lambda _: table, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    made = {ROOT / "docs" / f"{kind}.md": markdown_page(kind) for kind in KINDS}
    made[ROOT / "docs" / "compositions.md"] = compositions.markdown()
    return {ROOT / "README.md": readme(), **made}


def main() -> int:
    made = pages()
    stale = [
        path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run: make docs")
        return 1 if stale else 0
    for path in stale:
        path.write_text(made[path], "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
