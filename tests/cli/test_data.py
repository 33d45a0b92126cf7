"""`untwine data`, as a person types it."""

import sys

import pytest
from PIL import Image

from untwine.cli import main
from untwine.registry import datasets


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run `untwine data ...` in this process; exit code and what it printed come back."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["untwine", "data", *words])
        try:
            main.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call


def test_the_list_has_every_dataset(command):
    code, out, err = command("list")
    assert code == 0 and "data preview NAME" in err
    assert [line.split("\t")[0] for line in out.splitlines()[1:]] == list(datasets)


def test_preview_prints_where_the_picture_is(command, tmp_path):
    code, out, _ = command("preview", "digits", "--set", "size=32", "--out", "a.png")
    assert (code, out) == (0, "a.png\n") and (tmp_path / "a.png").exists()
    code, out, _ = command("preview", "coloured-mnist(of=digits)")
    assert (code, out) == (0, "coloured-mnist.png\n")


def test_a_preview_of_own_pictures_is_named_after_their_folder(command, tmp_path):
    (tmp_path / "photos").mkdir()
    for side in range(20, 30):
        Image.new("RGB", (side, side)).save(tmp_path / "photos" / f"{side}.png")
    assert command("preview", "./photos", "--set", "size=16")[:2] == (0, "photos.png\n")
    code, _, err = command("preview", "./photos")
    assert code == 1 and "9 of the files" in err and err.endswith("and 4 more\n")


def test_fetch_path_and_check(command, tmp_path):
    assert command("fetch", "digits") == (0, "", "digits needs no files\n")
    assert f"cache\t{tmp_path / 'cache'}" in command("path", "mnist")[1]
    assert "examples\t1,500 of 1x28x28" in command("check", "digits")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["preview", "sprits"], "did you mean 'sprites'"),
        (["preview", "sprites", "--set", "size=9"], "16 to 128"),
        (["preview", "sprites", "--set", "sizes=32"], "did you mean 'size'"),
        (["preview", "sprites", "--set", "size=16", "--out", "/proc/x/y.png"], "/proc/x"),
        (["path", "mnits"], "did you mean 'mnist'"),
        (["check", "mnist"], "untwine data fetch mnist"),
        (["check", "mnist-01(of=digit)"], "did you mean 'digits'"),
    ],
)
def test_mistakes_are_one_sentence_and_a_bad_exit(command, words, sentence):
    code, out, err = command(*words)
    assert code in (1, 2) and out == ""
    assert sentence in err and err.count("\n") == 1 and err.startswith("error: ")


def test_fetching_without_a_network_is_one_sentence(command, monkeypatch, tmp_path):
    def refuse(*args):
        raise OSError("no network")

    monkeypatch.setattr("untwine.data.files._transfer", refuse)
    code, out, err = command("fetch", "mnist", "-q")
    assert code == 1 and out == "" and err.count("\n") == 1
    assert f"into {tmp_path / 'cache' / 'mnist'}" in err and "stand-in digits" in err
