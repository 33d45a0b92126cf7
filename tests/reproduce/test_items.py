"""Every table and figure that can be run by name, at its smallest scale."""

import json
import re

import pytest

from untwine.errors import UnknownNameError
from untwine.reproduce.claim_tests import TESTS
from untwine.reproduce.claims import VERDICTS
from untwine.reproduce.evidence import AND, Description
from untwine.reproduce.items import all_items, items_of, paper_names, prepare, read_paper
from untwine.reproduce.page import write_index, write_page
from untwine.study.document import StudyFileErrors, at_scale
from untwine.study.job import finish_job

ITEMS = {item.address: item for item in all_items()}


def reproduced(item, out):
    """The page of an item from one seed, its runs trained in this process."""
    prepared = prepare(item, "smoke", out, seeds=1)
    jobs = [job for folder in prepared.folders.values() for job in folder.jobs()]
    for job in jobs:
        finish_job(job)
    assert jobs
    return write_page(prepared)


@pytest.mark.parametrize("name", paper_names())
def test_every_item_of_a_paper_makes_its_page(name, tmp_path):
    for item in items_of(read_paper(name)):
        page = reproduced(item, tmp_path)
        html = page.path.read_text()
        assert page.sections and item.title in html.replace("&#39;", "'"), item.address
        links = re.findall(r'(?:src|href)="(?!data:|https?:|#)([^"]*)"', html)
        assert all((page.path.parent / link).is_file() for link in links), item.address
        for section in page.sections:
            assert section.svg or section.image or section.rows, f"{item.address}: {section.title}"
            assert all((page.path.parent / file).is_file() for file in section.files)
        kept = json.loads((page.path.parent / "results.json").read_text())
        assert len(kept["verdicts"]) == len(item.claims)
        assert {v["verdict"] for v in kept["verdicts"]} <= set(VERDICTS)
        assert kept["data"] in (page.path.parent / "results.md").read_text()
    assert item.address in write_index(tmp_path).read_text()


def described(item):
    """The study and description of all runs that an item's claims and tables name."""
    for claim in item.claims:
        if (claim.get("published") or {}).get("only"):
            continue
        (how,) = (body for kind, body in claim.items() if kind in TESTS)
        for key in ("of", "than", "to"):
            if isinstance(how.get(key), str | list):
                yield how["study"], how[key]
    for entry in item.show:
        for how in entry.values():
            rows = how.get("rows") or how.get("runs") or {}
            for row in rows.values() if isinstance(rows, dict) else ():
                runs = row.get("runs") if isinstance(row, dict) else row
                if runs:
                    yield how["study"], runs


def offered(body, key):
    """The values of a model's parameter in a study, as text."""
    numbers = {**body, **body.get("zip", {}), **body.get("training", {})}
    found = next((v for k, v in numbers.items() if k.rpartition(".")[2] == key), None)
    return {plain(v) for v in (found if isinstance(found, list) else [found])}


def plain(value):
    """A number without needless digits; words as they are."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def fits(text, models):
    wanted = Description.read(text)
    listed = models if isinstance(models, dict) else dict.fromkeys(models)
    listed = {"+".join(sorted(name.split("+"))): body for name, body in listed.items()}
    if wanted.model not in listed:
        return False
    body = listed[wanted.model] or {}
    return all(plain(v) in offered(body, k) for k, v in wanted.numbers)


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("address", ITEMS)
def test_what_an_item_names_is_among_its_runs(address, scale):
    item = ITEMS[address]
    for study, texts in described(item):
        content = at_scale(item.paper.study(study), scale).content
        listed = [texts] if isinstance(texts, str) else texts
        found = [all(fits(t, content["models"]) for t in text.split(AND)) for text in listed]
        assert any(found), (study, texts)


def test_a_file_of_ones_own_is_checked_with_line_numbers(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("title: T\nby: B\nurl: U\nstudies: {s: {}}\nitems:\n  table1: {studies: [t]}\n")
    with pytest.raises(StudyFileErrors, match=r"line 6: the item table1 must have `show:`"):
        read_paper(str(file))
    with pytest.raises(UnknownNameError, match="no paper"):
        read_paper("other")
