"""The committed pages of papers: rebuilt from tables, with verdicts, without photographs."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from untwine.errors import DataError
from untwine.reproduce.claims import OURS, VERDICTS, assess_claim, claims_of
from untwine.reproduce.items import (
    PreparedItem,
    find_item,
    items_of,
    paper_names,
    read_causes,
    read_paper,
)
from untwine.reproduce.overview import (
    all_verdicts,
    counts_by_item,
    draw_matrix,
    matrix,
    replication_sentence,
    verdict_table,
)
from untwine.reproduce.trial import (
    check_unchanged,
    read_records,
    recorded_evidence,
    without_recorded,
)
from untwine.tools import pages

DOCS = Path(__file__).parents[2] / "docs" / "reproductions"
RESULTS = DOCS / "results"
TRIALS = [name for name in paper_names() if read_paper(name)["trial"]]
PICTURE = re.compile(r"(\*\*[^\n]*)\n\n!\[([^\]]*)\]\((?:figures|results/pictures)/([^)]+)\)")
SHOWS_DATA = re.compile(r"-data-|(?<!shared)-interpolations-")


def test_no_committed_figure_shows_photographs_of_celeba():
    texts = [page.read_text("utf-8") for page in DOCS.glob("*.md")]
    pictures = [picture for text in texts for picture in PICTURE.findall(text)]
    assert len(pictures) > 20
    for sentence, title, file in pictures:
        if "celeba" in sentence:
            assert not SHOWS_DATA.search(file) and pages.SHOWS_DATA not in title, file
            assert "-shared-interpolations-" not in file or "reconstructions of" in sentence, file


def test_every_committed_figure_is_shown_on_a_page():
    text = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    files = [*(DOCS / "figures").iterdir(), *(RESULTS / "pictures").glob("*.png")]
    assert [f for f in files if f"({f.relative_to(DOCS)})" not in text] == []


@pytest.mark.parametrize("name", TRIALS)
def test_claims_in_trial_have_a_name_and_a_place(name):
    paper = read_paper(name)
    bodies = [body for item in items_of(paper) for body in item.claims]
    assert all(body.get("name") and (body.get("paper") or body.get("ours")) for body in bodies)
    claims = list(claims_of(paper))
    assert max(Counter(claim.name for claim in claims).values()) == 1
    assert read_causes(name).keys() <= {claim.name for claim in claims}
    assert all({"says", "gave", "why"} <= claim.keys() for claim in paper["dropped"])


@pytest.mark.parametrize("name", TRIALS)
def test_every_contradiction_shows_its_cause(name):
    if json.loads((RESULTS / f"{name}.json").read_text())["protocol"] != "trial":
        pytest.skip("the trial is not run")
    causes = read_causes(name)
    found = {v.name: {f.verdict for f in v.findings.values()} for v in all_verdicts(RESULTS)[name]}
    assert [
        one for one, seen in found.items() if "contradicted" in seen and one not in causes
    ] == []


def test_a_page_says_how_many_runs_a_replication_has():
    page = (DOCS / "comparison.md").read_text("utf-8")
    assert replication_sentence("comparison", RESULTS) in page
    assert re.search(r"Our replication (has \d+ of 222 runs so far|is complete)", page)
    assert not replication_sentence("dip-vae", RESULTS)  # its own runs decide


@pytest.mark.parametrize("name", TRIALS)
def test_committed_verdicts_on_our_runs_follow_from_the_committed_tables(name):
    paper = read_paper(name)
    records = read_records(paper, "laptop", RESULTS)
    check_unchanged(paper, records)
    evidence = recorded_evidence(next(items_of(paper)), "laptop", records)
    written = {v.name: v for v in all_verdicts(RESULTS)[name]}
    claims = {claim.name: claim for claim in claims_of(paper)}
    assert written.keys() == claims.keys()
    for claim in claims.values():
        found = assess_claim(claim, {OURS: evidence}).findings.get(OURS)
        stored = written[claim.name].findings.get(OURS)
        assert (found and found.verdict) == (stored and stored.verdict), claim.name
    for record in records.values():
        assert min(record.facts["seeds"]) >= 100 and record.facts["commit"]


def test_tables_of_real_data_are_not_continued_with_stand_ins():
    item = find_item("intel-vae/table2")
    with pytest.raises(DataError, match=r"are of mnist-01, whose files are missing .*--data"):
        without_recorded(
            PreparedItem(item, "laptop", {}, {"mnist-01": "mnist-01(of=digits)"}), RESULTS
        )
    plain = PreparedItem(item, "laptop", {}, {"cars3d": "sprites"})  # no table is of these
    assert without_recorded(plain, RESULTS) == plain


def test_the_overview_counts_every_claim():
    papers = all_verdicts(RESULTS)
    assert len(papers) >= 5
    last = matrix(RESULTS).splitlines()[-1]
    assert f"| {sum(map(len, papers.values()))} |" in last
    for name in TRIALS:
        table = verdict_table(name, RESULTS)
        assert all(v.says in table for v in papers[name])
        rows = counts_by_item(name, papers[name]).splitlines()[2:]
        counts = [cell.strip() for row in rows for cell in row.split("|")[2:]]
        assert sum(map(int, filter(None, counts))) == len(papers[name])
        facts = json.loads((RESULTS / f"{name}.json").read_text())
        assert {claim["verdict"] for claim in facts["claims"]} <= set(VERDICTS)


def test_the_picture_has_a_square_for_each_finding():
    figure = draw_matrix(RESULTS)
    assert len(figure.axes[0].patches) > 150
