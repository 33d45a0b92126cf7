"""Which models combine, and whom to cite."""

import re

import pytest

import untwine
from untwine.catalogue.entries import citations
from untwine.catalogue.pairs import NO, YES, all_refusals, pair_page, pair_table, partners
from untwine.registry import models

SOME = [("beta-tcvae", "beta-vae"), ("annealed-vae", "beta-vae"), ("denoising", "jigsaw")]


def test_refusals_come_from_the_build():
    found = all_refusals(SOME)
    assert found["beta-tcvae", "beta-vae"] == ""
    assert "both recipes set ['kl']" in found["annealed-vae", "beta-vae"]
    assert "both recipes set ['corruption']" in found["denoising", "jigsaw"]


def test_the_matrix_is_symmetric_with_an_empty_diagonal():
    names = list(models)
    found = {
        (a, b): "no" if (i + j) % 3 else ""
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j
    }
    header, rows = pair_table(found)
    cells = [row[1:] for row in rows]
    assert len(header) == len(rows) + 1
    assert all(cells[i][j] == cells[j][i] for i in range(len(names)) for j in range(len(names)))
    assert {cells[i][i] for i in range(len(names))} == {""}
    assert {cell for row in cells for cell in row} == {"", YES, NO}


def test_partners_leave_out_the_model_itself():
    yes, no = partners("jigsaw")
    assert "jigsaw" not in yes + no and "mixup" in no and "beta-vae" in yes


def test_the_page_counts_what_it_shows(monkeypatch):
    monkeypatch.setattr(
        "untwine.catalogue.pairs.pair_refusal", lambda names: "" if "vae" in names else "no"
    )
    page = pair_page()
    together, total = page.count(YES) - 1, int(re.search(r"Of (\d+) pairs", page)[1])
    assert together == 2 * int(re.search(r"models (\d+) build", page)[1])
    assert total == len(list(models)) * (len(list(models)) - 1) // 2


@pytest.mark.parametrize("name", list(models))
def test_every_model_can_be_cited(name):
    for entry in citations(name):
        assert re.match(r"@\w+\{\w+,\n", entry) and entry.endswith("}")
        assert all(f"{field} = " in entry for field in ("title", "author", "year"))
        assert entry.count("{") == entry.count("}")


def test_citations_are_of_exactly_what_is_used():
    assert len(citations("jigsaw+beta-tcvae")) == 2
    assert len(citations("dip-vae-i+beta-vae")) == 2
    with pytest.raises(untwine.UnknownNameError, match="no model named"):
        citations("jigsaw+nothing-like-it")
