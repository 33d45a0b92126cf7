"""Tables that are written for others."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from untwine.study.published import read_published
from untwine.tools.tables import FORMULA_STARTS, disarm_text, format_csv, write_csv, write_parquet

FORMULA = '=HYPERLINK("http://evil","x")'


@pytest.fixture
def table():
    cells = {"model": ["vae", FORMULA], "setting": ["@x", "-2+cmd|' /C calc'!A0"]}
    numbers = {"data": "sprites", "seed": [0, 1], "value": ["-2.5", ""], "=mig": [-0.5, 0.25]}
    return pd.DataFrame({**cells, **numbers})


def test_formulas_are_disarmed_and_numbers_stay(table, tmp_path):
    write_csv(table, tmp_path / "t.csv")
    write_parquet(table, tmp_path / "t.parquet")
    for again in (pd.read_csv(tmp_path / "t.csv"), pd.read_parquet(tmp_path / "t.parquet")):
        assert list(again["model"]) == ["vae", f"'{FORMULA}"]
        assert list(again["setting"]) == ["'@x", "'-2+cmd|' /C calc'!A0"]
        assert list(again["'=mig"]) == [-0.5, 0.25] and float(again["value"][0]) == -2.5
        assert list(again["seed"]) == [0, 1]


def test_a_written_table_can_be_imported(table, tmp_path):
    write_csv(table, tmp_path / "t.csv")
    again = read_published([tmp_path / "t.csv"])
    assert list(again["model"]) == ["vae", f"'{FORMULA}"]
    assert format_csv(again[table.columns.drop("=mig")]) == format_csv(table.drop(columns="=mig"))


@given(st.text())
def test_no_text_but_a_number_starts_a_formula(text):
    shown = disarm_text(text)
    assert shown == text or shown == f"'{text}"
    if shown.lstrip().startswith(FORMULA_STARTS):
        float(shown)


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_table_is_replaced_whole_or_not_at_all(table, tmp_path, write, monkeypatch):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr("os.fsync", lambda handle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(table, tmp_path / "link")
    assert (tmp_path / "real").read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    monkeypatch.undo()
    write(table, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").stat().st_size > 30


def test_a_device_is_written_to_and_not_replaced(table, tmp_path):
    import os
    import threading

    os.mkfifo(tmp_path / "pipe")
    lines = []
    reader = threading.Thread(target=lambda: lines.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_csv(table, tmp_path / "pipe")
    reader.join(10)
    assert lines == [format_csv(table)] and (tmp_path / "pipe").is_fifo()
