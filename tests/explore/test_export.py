"""The copy that needs no server."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from PIL import Image

from untwine.errors import DataError
from untwine.explore import export, recording, spaces
from untwine.explore.export import write_copy
from untwine.explore.gallery import Gallery
from untwine.explore.recording import encode_name, format_number


@pytest.fixture(scope="module")
def made(explored, tmp_path_factory):
    """A copy of all runs: its folder, and what data.js holds."""
    out, _ = explored
    folder = tmp_path_factory.mktemp("copies") / "shown"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "tsne_coordinates", lambda codes, *_: codes[:, :2])
        index = write_copy(Gallery.find([], out), folder, quiet=True)
    assert index == folder / "index.html"
    return folder, read(folder)


def read(folder):
    (data,) = folder.glob("data-*.js")
    text = data.read_text("ascii")
    return json.loads(text.removeprefix("window.UNTWINE_COPY = ").removesuffix(";\n"))


def kinds(folder):
    """What a folder holds, without hashes."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


def at(explored, kind):
    return f"/api/runs/{quote(explored[1][kind].name)}"


class Sources(HTMLParser):
    """Every file that a page names, in order."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        names = {"script": "src", "link": "href", "img": "src"}
        self.found += [value for key, value in attributes if key == names.get(tag)]


def test_the_page_reads_its_data_first_and_every_file_is_there(made):
    folder, _ = made
    page = Sources()
    page.feed((folder / "index.html").read_text("utf-8"))
    scripts = [source for source in page.found if source.endswith(".js")]
    assert scripts[0].startswith("data-") and len(scripts) > 1
    assert all((folder / source).is_file() for source in page.found)
    assert kinds(folder) == ["data", "index.html", "page", "pictures"]


def test_every_picture_is_a_file_and_every_file_is_named(made):
    folder, data = made
    files = {str(path.relative_to(folder)) for path in folder.glob("pictures-*/*")}
    assert set(data["pictures"].values()) == files
    for name in list(files)[::20]:
        if name.endswith(".png"):
            Image.open(folder / name).verify()


def test_answers_are_those_of_the_page_s_addresses(made, explored):
    _, data = made
    run = at(explored, "plain")
    assert len(data["answers"]["/api/runs"]) == 3
    orders = [f"/reconstructions?count=24&order={one}&seed=0&start=0" for one in ("far", "random")]
    spaces = [f"/space?by={by}&x=0&y=1&dots=1000" for by in ("pca", "tsne")]
    colours = ["/colour?by=error&number=0&dots=1000", "/colour?by=kl&number=0&dots=1000"]
    for rest in ("", "/examples?count=24&seed=0", "/factors", "/start?seed=3",
                 *orders, *spaces, *colours):  # fmt: skip
        assert run + rest in data["answers"]
    first, second = (one["number"] for one in data["answers"][run]["latents"][:2])
    assert f"{run}/space?by=latents&x={first}&y={second}&dots=1000" in data["answers"]
    assert f"{run}/sheet.png?dots=1000" in data["pictures"]
    assert data["answers"]["/api/study"]["runs"] != []


def test_every_start_has_its_image_and_its_traversals(made, explored):
    _, data = made
    run = at(explored, "plain")
    starts = {key: value for key, value in data["answers"].items() if f"{run}/start?" in key}
    assert len(starts) == 12
    rows = ",".join(str(one["number"]) for one in data["answers"][run]["latents"])
    for start in starts.values():
        code = ",".join(map(format_number, start["code"]))
        assert f"{run}/decode.png?code={code}" in data["pictures"]
        assert f"{run}/traversals.png?code={code}&latents={rows}&steps=21" in data["pictures"]


def test_every_image_that_answers_name_is_there(made, explored):
    _, data = made
    run = at(explored, "plain")
    examples = data["answers"][f"{run}/examples?count=24&seed=0"]
    worst = data["answers"][f"{run}/reconstructions?count=24&order=worst&seed=0&start=0"][
        "examples"
    ]
    assert len(examples) == len(worst) == 24
    for row in examples + worst:
        assert f"{run}/image.png?index={row['index']}" in data["pictures"]
    for row in worst:
        assert f"{run}/reconstruction.png?index={row['index']}" in data["pictures"]
    start, end = examples[0]["index"], examples[5]["index"]
    assert f"{run}/between.png?start={start}&end={end}&steps=9" in data["pictures"]


def test_clusters_and_groups_are_there_where_a_model_has_them(made, explored):
    _, data = made
    clustered, grouped, plain = (at(explored, k) for k in ("clustered", "grouped", "plain"))
    for cluster in data["answers"][f"{clustered}/clusters"]:
        for index in cluster["members"]:
            assert f"{clustered}/image.png?index={index}" in data["pictures"]
    for cluster in (0, 1):
        for seed in (0, 1, 2):
            address = f"{grouped}/groups.png?cluster={cluster}&seed={seed}&rows=6&columns=8"
            assert address in data["pictures"]
    assert f"{plain}/clusters" not in data["answers"]
    assert not any(key.startswith(f"{plain}/groups") for key in data["pictures"])


@pytest.fixture
def brief(monkeypatch):
    """Copies of one picture for each run, which take no time."""
    monkeypatch.setattr(
        recording, "picture_addresses", lambda copy, base: [f"{base}/image.png?index=0"]
    )


def test_an_older_copy_is_replaced(made, explored, brief):
    folder, data = made
    (pictures,) = folder.glob("pictures-*")
    (pictures / "0001.png").unlink()
    (pictures / "old.png").touch()
    write_copy(Gallery.find([], explored[0]), folder, quiet=True)
    again = read(folder)
    assert len(again["pictures"]) < len(data["pictures"])
    assert not list(folder.glob("*/old.png"))
    assert kinds(folder) == ["data", "index.html", "page", "pictures"]


def test_the_same_copy_again_is_mended_where_it_was_changed(explored, tmp_path, brief):
    def write():
        write_copy(Gallery.find([], explored[0]), tmp_path, quiet=True)
        return {path.name for path in tmp_path.iterdir()}

    first = write()
    assert write() == first
    changed = next(tmp_path.glob("pictures-*")) / "0001.png"
    changed.write_bytes(b"")
    second = write()
    assert len(second) == len(first) and changed.parent.name not in second
    assert all((tmp_path / name).stat().st_size for name in read(tmp_path)["pictures"].values())


def test_a_copy_of_an_earlier_version_is_replaced(explored, tmp_path, brief):
    for name in ("page", "pictures"):
        (tmp_path / name).mkdir()
    (tmp_path / "data.js").write_text("window.UNTWINE_COPY = {};\n")
    (tmp_path / "index.html").write_text("old")
    write_copy(Gallery.find([], explored[0]), tmp_path, quiet=True)
    assert kinds(tmp_path) == ["data", "index.html", "page", "pictures"]
    assert not (tmp_path / "data.js").exists()


def test_two_copies_into_one_directory_are_refused(explored, tmp_path):
    with export.lock_copy(tmp_path), pytest.raises(DataError, match="another process"):
        write_copy(Gallery.find([], explored[0]), tmp_path, quiet=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["notes.txt", "data.js", "index.html", "page-mine", "data-1.js"])
def test_a_directory_that_holds_other_things_is_left_alone(explored, tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(DataError, match="other things"):
        write_copy(Gallery.find([], explored[0]), tmp_path, quiet=True)
    assert (tmp_path / there).read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_a_file_is_no_directory_for_a_copy(explored, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="is a file"):
        write_copy(Gallery.find([], explored[0]), tmp_path / "file", quiet=True)


def test_a_copy_holds_at_most_a_few_runs_and_says_so(explored, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recording, "MAX_RUNS", 1)
    monkeypatch.setattr(recording, "picture_addresses", lambda copy, base: [])
    write_copy(Gallery.find([], explored[0]), tmp_path / "few", quiet=True)
    data = read(tmp_path / "few")
    held = {line["name"] for line in data["answers"]["/api/runs"]}
    assert len(held) == 1 and "1 of 3 runs" in data["about"]
    assert "1 of 3 runs" in capsys.readouterr().err
    assert set(data["answers"]["/api/study"]["runs"]) == {"", *held}


def test_what_fails_on_the_way_leaves_no_half_of_a_copy(explored, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "record_runs", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_copy(Gallery.find([], explored[0]), tmp_path / "half", quiet=True)
    assert list((tmp_path / "half").iterdir()) == []


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.03125, "0.0313"), (-0.03125, "-0.0313"), (1.00005, "1.0001"), (1e-9, "0"), (-1e-9, "0"),
     (-0.0, "0"), (100.0, "100"), (-2.5, "-2.5"), (0.1 + 0.2, "0.3"), (99.99999, "100")],
)  # fmt: skip
def test_numbers_are_written_as_the_page_writes_them(value, written):
    """As String(+value.toFixed(4)) in JavaScript, whose ties go away from zero."""
    assert format_number(value) == written


def test_names_are_escaped_as_the_page_escapes_them():
    assert encode_name("a b/c(2)+ä~!*'") == "a%20b%2Fc(2)%2B%C3%A4~!*'"
    assert not re.search(r"[ /+]", encode_name("a b/c+"))
