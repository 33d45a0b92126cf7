"""Execute the notebooks of examples/ and write them, with what they show, as pages of tutorials/.

python docs/notebooks.py [NAME ...]     a few minutes; NAME is that of a script, such as first_model

A notebook is a script whose cells begin with `# %%`, as jupytext reads them.
"""

import base64
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOKS = {  # pages by script
    "first_model": "first-model",
    "photos": "photos",
    "study": "study",
    "own_part": "own-part",
}
PNG_URL = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
WRITTEN = "<!-- Written by docs/notebooks.py from examples/{name}.py; do not edit. -->"


def main() -> None:
    for name in sys.argv[1:] or NOTEBOOKS:
        write_page(name, execute(name))
        print(f"wrote {(TUTORIALS / NOTEBOOKS[name]).relative_to(ROOT)}.md")


def execute(name: str) -> Any:
    """The notebook of a script with its outputs, run in a kernel in a directory of its own."""
    import ipykernel  # noqa: F401 (the kernel that the client starts)
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(ROOT / "examples" / f"{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=3600, kernel_name="python3", resources=resources).execute()
    return notebook


def write_page(name: str, notebook: Any) -> None:
    """Write the Markdown page of an executed notebook, and its pictures."""
    page = NOTEBOOKS[name]
    (TUTORIALS / "figures").mkdir(parents=True, exist_ok=True)
    for old in (TUTORIALS / "figures").glob(f"{page}-*.png"):
        old.unlink()
    parts: list[str] = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts += [shown(o, cell.source, f"{page}-{number}") for o in cell.outputs]
    text = "\n\n".join([part for part in parts if part] + [WRITTEN.format(name=name)])
    (TUTORIALS / f"{page}.md").write_text(text + "\n", "utf-8")


def shown(output: Any, source: str, name: str) -> str:
    """What a cell shows: a picture, a table or a card, or text."""
    if output.output_type == "stream":
        return fenced(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        picture = saved(data["image/png"], name)
        return f"![{source.splitlines()[-1].strip()}]({picture})"
    if "text/html" in data:
        html = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        html = html.replace(' border="1" class="dataframe"', "")  # the site has its own style
        html = PNG_URL.sub(lambda match: saved(match[1], name), html)
        return re.sub(r">\n\s*<", "><", html).replace("\n", "<br>")
    return fenced(data.get("text/plain", ""))


def saved(png: str, name: str) -> str:
    """Write a picture, and return its place relative to the page."""
    (TUTORIALS / "figures" / f"{name}.png").write_bytes(base64.b64decode(png))
    return f"figures/{name}.png"


def fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def code_cells(script: str) -> list[str]:
    """The code of a notebook's cells, as its script has them.

    >>> code_cells("# %% [markdown]\\n# # Title\\n\\n# %%\\nx = 1\\n")
    ['x = 1']
    """
    cells = re.split(r"^# %%", script, flags=re.MULTILINE)[1:]
    return [cell.partition("\n")[2].strip() for cell in cells if not cell.startswith(" [markdown]")]


def code_blocks(page: str) -> list[str]:
    """The Python of a page."""
    return [block.strip() for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)]


def out_of_date(root: Path = ROOT) -> list[str]:
    """The pages whose Python is not that of their script."""
    stale = []
    for name, page in NOTEBOOKS.items():
        script = (root / "examples" / f"{name}.py").read_text("utf-8")
        text = (root / "docs" / "tutorials" / f"{page}.md").read_text("utf-8")
        if code_cells(script) != code_blocks(text):
            stale.append(f"{page}.md is out of date; run: python docs/notebooks.py {name}")
    return stale


if __name__ == "__main__":
    main()
