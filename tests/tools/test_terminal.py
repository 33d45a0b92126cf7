"""What commands print."""

import io
import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untwine.tools import terminal
from untwine.tools.progress import progress


def test_tables_are_drawn_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    terminal.show_table(["a", "b"], [["1", "2"]])
    assert "\t" not in capsys.readouterr().out


def test_tables_are_tab_separated_elsewhere(capsys):
    terminal.show_table(["a", "b"], [["1", "2"]])
    assert capsys.readouterr().out == "a\tb\n1\t2\n"


def test_messages_are_not_part_of_the_output(capsys):
    terminal.say("done")
    terminal.warn("slow")
    assert capsys.readouterr() == ("", "done\nwarning: slow\n")


NASTY = "[/red] [link=http://evil]here[/link] \x1b]0;title\x07 \x9b31m a\tb\nc\r \u202e \udcff"


def on_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def controls(text):
    """The characters that a terminal would act on, colours of our own headings aside."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {char for char in plain if unicodedata.category(char) in kinds} - {"\n", "\t"}


@pytest.mark.parametrize("tty", [True, False])
def test_cells_are_text(monkeypatch, capsys, tty):
    if tty:
        on_terminal(monkeypatch)
        monkeypatch.setenv("COLUMNS", "300")
    terminal.show_table([NASTY, "b"], [[NASTY, "[bold]x[/bold]"], ["[/red]", "\x1b[31m"]])
    out = capsys.readouterr().out
    assert not controls(out)
    for shown in ("[/red]", "[link=http://evil]here[/link]", "[bold]x[/bold]", "␛]0;title␇",
                  "␛[31m", r"\x9b", "a␉b␊c␍", r"\u202e", r"\xff"):  # fmt: skip
        assert shown in out
    assert len(out.splitlines()) == 3


def test_messages_are_text_of_one_or_more_lines(capsys):
    terminal.say(f"error: {NASTY}")
    terminal.warn(NASTY)
    err = capsys.readouterr().err
    assert not controls(err) and "a\tb\nc␍" in err and r"\xff" in err


@given(st.text(st.characters(codec=None)))
def test_nothing_printable_is_changed_and_nothing_else_is_sent(text):
    shown = terminal.printable(text)
    assert not controls(shown) and shown.encode().decode() == shown
    assert shown == text or not text.isprintable()
    assert terminal.printable(shown) == shown


def test_a_path_that_is_not_utf_8_keeps_its_bytes_in_a_pipe(monkeypatch, capfdbinary):
    path = Path(os.fsdecode(b"runs/\xff\xe9-\x1b[31m"))
    stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8")
    monkeypatch.setattr(sys, "stdout", stdout)
    terminal.show_path(path)
    assert capfdbinary.readouterr().out == b"runs/\xff\xe9-" + "␛[31m\n".encode()
    monkeypatch.setattr(stdout, "isatty", lambda: True, raising=False)
    terminal.show_path(path)
    stdout.flush()
    assert capfdbinary.readouterr().out == "runs/\\xff\\xe9-␛[31m\n".encode()


def test_progress_is_text(monkeypatch, capsys):
    on_terminal(monkeypatch)
    with progress(2, "[bold]a {x}", quiet=False) as show:
        show(2, "[/red] \x1b]0;t\x07")
    err = capsys.readouterr().err
    assert "[bold]a {x}" in err and "[/red] ␛]0;t␇" in err and controls(err) <= {"\r"}
