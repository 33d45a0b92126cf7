"""Files of runs, studies and the cache are opened by `tools` alone."""

import re
from pathlib import Path

import untwine

SOURCE = Path(untwine.__file__).parent
OPENS = re.compile(
    r"\.read_text\(|[\w)\]]\.read_bytes\(|np\.load\(|np\.fromfile|\bopen\("
    r"|load_file\(|safe_open\(|json\.load\(|read_csv\((?!io\.)"
)
OUTSIDE = {  # readers of other files: what they read
    "tools/files.py": "the one way in",
    "tools/process.py": "writes the owner of a lock",
    "data/cache.py": "files to know them by content, and arrays of the cache after their checksum",
    "data/files.py": "published files and downloads",
    "data/incoming/": "bytes from outside",
    "data/tables.py": "tables of the user",
    "data/idx.py": "data files of the user",
    "data/pictures.py": "data files of the user",
    "datasets/": "data files of the user",
    "scoring/rows.py": "codes that the user names",
    "scoring/references.py": "the package's own source, for its digest",
    "study/document.py": "study files that the user names",
    "study/published.py": "tables that the user names",
    "reproduce/trial.py": "tables of results that outlive their runs",
    "reproduce/items.py": "the package's own items",
    "estimators/pretrained.py": "weights of a package, known by checksum",
    "explore/": "the package's own page, uploads, copies that it wrote",
    "plugins.py": "plug-ins that the user names",
    "tools/pages.py": "the package's own templates",
    "testing/": "reports that a check has just written",
}


def test_no_other_module_opens_files():
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for file in sorted(SOURCE.rglob("*.py"))
        if not (name := file.relative_to(SOURCE).as_posix()).startswith(tuple(OUTSIDE))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if OPENS.search(line) and "webbrowser" not in line
    ]
    assert not wrong


def test_runs_studies_and_reports_open_nothing_themselves():
    for folder in ("runs", "report", "catalogue", "cli"):
        for file in (SOURCE / folder).rglob("*.py"):
            assert not OPENS.search(file.read_text(encoding="utf-8")), file
