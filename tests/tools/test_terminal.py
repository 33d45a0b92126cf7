"""What commands print."""

import sys

from untwine.tools import terminal


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
