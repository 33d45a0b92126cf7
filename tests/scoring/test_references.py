"""Scores of reference codes are computed once for the same factors, metric and code."""

import numpy as np
import pytest

from untwine.registry import metrics
from untwine.scoring import references
from untwine.scoring.references import reference_scores
from untwine.scoring.scores import compute

FACTORS = np.random.default_rng(0).integers((2, 3), size=(60, 2))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files on disk."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    return lambda: sorted((tmp_path / "references").glob("*"))


@pytest.fixture
def ask(kept, monkeypatch):
    """Ask as a new process does; the scores, and how many codes were scored for them."""

    def ask(name="mig", factors=FACTORS, test=None):
        calls = []
        monkeypatch.setattr(references, "_memory", {})
        references._code_digest.cache_clear()

        def counted(rows, choice):
            calls.append(rows)
            return compute(rows, choice)

        scores = reference_scores(metrics.choose(name), factors, test, counted)
        return scores, len(calls)

    yield ask
    references._code_digest.cache_clear()


@pytest.mark.parametrize("name", ["mig", "modularity", "sap"])
def test_another_process_finds_every_digit(ask, name):
    first, computed = ask(name)
    assert set(first) == {"perfect", "rotated", "random"} and computed == 3
    assert ask(name) == (first, 0)


def test_other_factors_test_rows_metrics_and_code_are_scored_anew(ask, kept, monkeypatch):
    ask()
    assert ask(factors=FACTORS[::-1])[1] == ask(test=FACTORS[:20])[1] == ask("sap")[1] == 3
    assert len(kept()) == 4
    monkeypatch.setattr(references, "__version__", "next")
    assert ask()[1] == 3


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"sha256": "x", "scores": {}}'])
def test_a_damaged_file_is_computed_anew(ask, kept, damage):
    scores, _ = ask()
    kept()[0].write_bytes(damage)
    assert ask() == (scores, 3)
    assert ask() == (scores, 0)


def test_a_changed_digit_is_noticed(ask, kept):
    scores, _ = ask()
    (file,) = kept()
    file.write_text(file.read_text("utf-8").replace("0.", "1."), "utf-8")
    assert ask() == (scores, 3)


def test_the_oldest_files_are_deleted(ask, kept, monkeypatch):
    monkeypatch.setattr(references, "MAX_FILES", 2)
    for n in (20, 30, 40):
        ask(factors=FACTORS[:n])
    assert len(kept()) == 2 and ask(factors=FACTORS[:40])[1] == 0


def test_a_disk_that_cannot_be_written_costs_only_time(ask, tmp_path):
    (tmp_path / "references").write_text("a file where the folder should be")
    assert ask()[1] == ask()[1] == 3
