"""The command `untwine reproduce`."""

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from untwine.cli.main import app
from untwine.errors import DataError, ParameterError, RunError, UnknownNameError, UntwineError
from untwine.reproduce.items import choose_data, find_item, find_items
from untwine.reproduce.page import rebuild_item, without_photographs

MINE = """
title: A paper of one's own
by: Somebody, 2026
url: https://example.org
studies:
  sprites:
    models: {beta-vae: {beta: [1, 4]}}
    data: [celeba(size=32) or sprites(size=16)]
    seeds: 2
    training: {network: mlp, steps: 5, batch: 8, latent: 2}
    metrics: [mig, reconstruction]
    examples: 60
    scales:
      smoke: {}
      laptop: {}
      paper: {data: [celeba]}
items:
  table1:
    title: How much a weight matters
    studies: [sprites]
    show:
      - table:
          study: sprites
          columns: {MIG (%): 100 * mig}
          rows: {VAE: {runs: beta-vae beta=1, paper: [7.5]}, β = 4: {runs: beta-vae beta=4}}
      - traversals: {study: sprites, runs: {VAE: beta-vae beta=1}}
    claims:
      - says: The weight raises MIG
        rises: {study: sprites, score: mig, of: beta-vae}
"""


def command(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "data"))
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    return file


def test_all_items_are_listed_with_the_time_they_take():
    result = command()
    assert result.exit_code == 0
    assert "dip-vae/table1\t" in result.stdout and "comparison/figure7\t" in result.stdout
    assert " min" in result.stdout


def test_an_item_prints_the_papers_numbers_next_to_ours_and_resumes(mine, tmp_path):
    words = [f"{mine}/table1", "--scale", "smoke", "--workers", 1, "--out", tmp_path / "out", "-q"]
    first = command(*words)
    assert first.exit_code == 0, first.stderr
    header, vae = [line.split("\t") for line in first.stdout.splitlines()[:2]]
    assert header[2:] == ["MIG (%), paper", "ours"] and vae[0] == "VAE" and vae[2] == "7.5"
    assert "±" in vae[3] and "The weight raises MIG\t" in first.stdout
    assert "sprites(size=16) stands in for celeba(size=32), whose files are missing" in first.stderr
    assert "a stand-in for CelebA" in first.stderr
    trained = {p: p.stat().st_mtime_ns for p in tmp_path.glob("out/runs/*/done.json")}
    again = command(*words)
    assert again.stdout == first.stdout and len(trained) == 4
    assert all(p.stat().st_mtime_ns == then for p, then in trained.items())


def test_tables_outlive_the_runs_and_what_was_fixed_may_not_change(mine, tmp_path):
    out, results = tmp_path / "out", tmp_path / "results"
    scale = ["--scale", "laptop", "--out", out]
    assert command(mine, *scale, "--workers", 1, "-q").exit_code == 0
    first = command(mine, *scale, "--results", results)
    assert first.exit_code == 0, first.output
    facts = json.loads((results / "mine-sprites-laptop.json").read_text())
    assert len(facts["settings"]) == 2 and facts["seeds"] == [0, 1] and not facts["incomplete"]
    shutil.rmtree(out)
    page = rebuild_item(find_item(f"{mine}/table1"), results, tmp_path)
    (picture,) = re.findall(r"!\[VAE\]\((results/pictures/[^)]+)\)", page)
    assert "| VAE |" in page and (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    again = command(mine, *scale, "--results", results)
    assert again.exit_code == 0 and again.stdout == first.stdout
    mine.write_text(MINE.replace("raises MIG", "lowers MIG").replace("rises:", "falls:"))
    refused = command(mine, *scale, "--results", results)
    assert "changed since the first run" in str(refused.exception)
    listed = "  - {of: claim The weight raises MIG}\n  - {of: claim The weight lowers MIG}\n"
    mine.write_text(f"{mine.read_text()}\nchanges:\n{listed}")
    assert command(mine, *scale, "--results", results).exit_code == 0


def test_pictures_need_one_run_of_each_model_and_take_numbers_from_the_tables(mine, tmp_path):
    out, results = tmp_path / "out", tmp_path / "results"
    words = [mine, "--scale", "laptop", "--out", out]
    assert command(*words, "--workers", 1, "-q").exit_code == 0
    assert command(*words, "--results", results).exit_code == 0
    (text,) = (results / "pictures").glob("*.txt")
    before = text.read_text()
    shutil.rmtree(results / "pictures")
    for run in out.glob("runs/*"):
        if json.loads((run / "run.json").read_text())["spec"]["seed"] == 1:
            shutil.rmtree(run)
    assert command(*words, "--results", results).exit_code == 0
    assert text.read_text() == before


def test_pictures_of_photographs_are_left_out():
    kept = "**Samples.** On celeba(size=32).\n\n![Samples](figures/a.png)"
    shown = "**Data.** On celeba.\n\n![Data (with images of the data)](figures/b.png)"
    text = without_photographs(f"{kept}\n\n{shown}")
    assert text.startswith(kept) and "b.png" not in text and "may not be passed on" in text


def test_a_setting_counts_once_all_its_seeds_are_there(mine, tmp_path):
    out, results = tmp_path / "out", tmp_path / "results"
    scale = ["--scale", "laptop", "--out", out]
    assert command(mine, *scale, "--workers", 1, "-q").exit_code == 0
    lost = sorted(out.glob("runs/*"))[0]
    shutil.rmtree(lost)
    assert command(mine, *scale, "--results", results).exit_code == 0
    facts = json.loads((results / "mine-sprites-laptop.json").read_text())
    assert len(facts["settings"]) == len(facts["incomplete"]) == 1
    (claim,) = json.loads((results / "mine.json").read_text())["claims"]
    assert claim["verdict"] == "not run" and "not complete" in claim["findings"]["ours"]["text"]


def test_nothing_is_kept_of_a_study_without_a_complete_setting(mine, tmp_path):
    out, results = tmp_path / "out", tmp_path / "results"
    scale = ["--scale", "laptop", "--out", out]
    assert command(mine, *scale, "--workers", 1, "-q").exit_code == 0
    for run in out.glob("runs/*"):
        if json.loads((run / "run.json").read_text())["spec"]["seed"] == 1:
            shutil.rmtree(run)
    assert command(mine, *scale, "--results", results).exit_code == 0
    assert [path.name for path in results.rglob("*")] == ["mine.json"]


def test_a_trial_continues_on_another_machine_from_its_table(mine, tmp_path):
    first, second, results = tmp_path / "first", tmp_path / "second", tmp_path / "results"
    laptop = ["--scale", "laptop", "-q", "--workers", 1]
    assert command(mine, *laptop, "--out", first).exit_code == 0
    whole = command(mine, "--out", first, "--results", tmp_path / "whole")
    shutil.rmtree(sorted(first.glob("runs/*"))[0])
    assert command(mine, "--out", first, "--results", results).exit_code == 0
    continued = command(mine, *laptop, "--out", second, "--recorded", results)
    assert continued.exit_code == 0, continued.output
    assert len(list(second.glob("runs/*/done.json"))) == 2  # the setting that was not complete
    joined = command(mine, "--out", second, "--results", results)
    assert joined.stdout == whole.stdout.replace("whole", "results")
    facts = json.loads((results / "mine-sprites-laptop.json").read_text())
    assert len(facts["settings"]) == 2 and not facts["incomplete"] and facts["continued"] == []
    again = command(mine, *laptop, "--out", second, "--recorded", results)
    assert again.exit_code == 0 and len(list(second.glob("runs/*/done.json"))) == 2


def test_a_study_takes_the_runs_it_shares_from_the_table_of_another(mine, tmp_path):
    first, second, results = tmp_path / "first", tmp_path / "second", tmp_path / "results"
    body = MINE[MINE.index("  sprites:\n") : MINE.index("items:\n")]
    pair = body.replace("  sprites:", "  pair:").replace("beta: [1, 4]}", "beta: 4}, vae: ")
    table = "table: {study: pair, columns: {}, rows: {}}"
    item = f"  table2: {{title: A pair, studies: [pair], show: [{table}]}}\n"
    mine.write_text(MINE.replace("items:\n", f"{pair}items:\n") + item)
    laptop = ["-q", "--workers", 1]
    assert command(f"{mine}/table1", *laptop, "--out", first).exit_code == 0
    assert command(mine, "--out", first, "--results", results).exit_code == 0
    continued = command(f"{mine}/table2", *laptop, "--out", second, "--recorded", results)
    assert continued.exit_code == 0, continued.output
    assert len(list(second.glob("runs/*/done.json"))) == 2  # those of the VAE
    assert command(mine, "--out", second, "--results", results).exit_code == 0
    facts = json.loads((results / "mine-pair-laptop.json").read_text())
    assert len(facts["settings"]) == 2 and not facts["incomplete"]


@pytest.mark.parametrize(
    ("ending", "old", "new"),
    [(".csv", "0.", "1."), (".json", '"examples": 60', '"examples": 61')],
)
def test_a_recorded_table_that_was_changed_is_named(mine, tmp_path, ending, old, new):
    laptop = ["--scale", "laptop", "-q", "--workers", 1]
    assert command(mine, *laptop, "--out", tmp_path / "out").exit_code == 0
    assert (
        command(mine, "--out", tmp_path / "out", "--results", tmp_path / "results").exit_code == 0
    )
    file = tmp_path / "results" / f"mine-sprites-laptop{ending}"
    file.write_text(file.read_text().replace(old, new, 1))
    result = command(mine, *laptop, "--out", tmp_path / "new", "--recorded", tmp_path / "results")
    assert isinstance(result.exception, RunError) and f"{ending} is damaged" in str(
        result.exception
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff", "not a text file in UTF-8"),
        (b"- 1", "must hold entries"),
        (b"items: [1]", "items is not an object"),
        (b"studies: {a: 3}", "studies.a is not an object"),
        (b"items: {a: {title: x, studies: 3}}", "items.a.studies is not a list"),
        (b"items: {a: {claims: [{rises: x}]}}", r"items.a.claims\[0\].says is missing"),
        (b"studies: {a: {models: vae}}", "the study a must have `data:`"),
        (b"studies: {a: {data: x, scales: {smoke: {data: 3}}}}", "scales.smoke.data is not text"),
    ],
)
def test_a_paper_of_another_shape_is_refused_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(UntwineError, match=sentence):
        find_items(str(tmp_path / "mine.yaml"))


def test_seeds_can_be_fewer_or_more(mine, tmp_path):
    words = [f"{mine}/table1", "--scale", "smoke", "--workers", 1, "--out", tmp_path / "out", "-q"]
    assert command(*words, "--seeds", 1).exit_code == 0
    assert len(list(tmp_path.glob("out/runs/*/done.json"))) == 2


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (["dip-vea"], UnknownNameError, "dip-vae"),
        (["dip-vae/tabel1"], UnknownNameError, "table1"),
        (["dip/table1"], UnknownNameError, "dip-vae"),
        (["dip-vae/table1", "--all"], ParameterError, "not both"),
        (["dip-vae/figure5", "--scale", "paper"], DataError, "celeba has to be placed by hand"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(words, error, sentence, mine):
    result = command(*words)
    assert result.exit_code != 0
    assert isinstance(result.exception, error) and sentence in str(result.exception)


def test_the_real_data_are_taken_where_they_are(mine):
    used = {}
    assert choose_data("digits or sprites", used, False) == "digits" and not used
    assert choose_data("celeba or digits", used, False) == "digits"
    assert choose_data("digits or sprites", used, True) == "sprites"
    assert used == {"celeba": "digits", "digits": "sprites"}
