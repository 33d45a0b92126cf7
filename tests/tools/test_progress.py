"""Progress: plain lines, listeners, silence."""

import pytest

from untwine.tools import progress as module
from untwine.tools.progress import LinePrinter, progress, redirect_progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_a_plain_line_every_ten_seconds_and_at_the_end(clock, capsys):
    with progress(1000, "training") as show:
        for done, seconds in ((1, 1), (2, 11), (3, 12), (999, 21.5)):
            clock[0] = seconds
            show(done, "")
        show(1000, "loss 3")
    assert capsys.readouterr().err.splitlines() == [
        "training 2/1,000  3.0 h left",
        "training 999/1,000  0 s left",
        "training 1,000/1,000  loss 3",
    ]


def test_an_end_without_a_note_prints_nothing(clock, capsys):
    with progress(2, "drawing") as show:
        show(2, "")
    assert capsys.readouterr().err == ""


def test_quiet_prints_nothing(clock, capsys):
    with progress(2, "drawing", quiet=True) as show:
        clock[0] = 60
        show(2, "done")
    assert capsys.readouterr().err == ""


def test_a_listener_takes_all_progress(capsys):
    calls = []
    with redirect_progress(lambda *call: calls.append(call)):
        with progress(2, "drawing") as show:
            show(1, "half")
    assert calls == [("drawing", 1, 2, "half")] and capsys.readouterr().err == ""


def test_lines_are_made_only_when_they_are_printed(clock, capsys):
    printer = LinePrinter()
    printer.update(lambda: pytest.fail("not due"))
    printer.update(lambda: "forced", now=True)
    clock[0] = 9
    printer.update(lambda: pytest.fail("not due"))
    printer.write("in between")
    clock[0] = 10
    printer.update(lambda: "due")
    assert capsys.readouterr().err.splitlines() == ["forced", "in between", "due"]
