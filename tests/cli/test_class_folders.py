"""Pictures in a sub-folder for each class: labels, codes, samples and names, to the explorer."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import DataError, ParameterError
from untwine.explore.view import RunView
from untwine.scoring.codes import outliers

NAMES = ("one", "seven", "three")
DIGITS = {"one": 1, "seven": 7, "three": 3}
OPTIONS = "--network mlp --set mlp.width=32 --latent 3 --steps 200 --batch 16 --lr 3e-3 --quiet"
LABELS = "--set folder.labels=folders --set conditional.on=class"


def write_digits(folder, data, names, per_class):
    """Digits as PNG files, in a sub-folder for each class."""
    levels = data.factors.levels_at(np.arange(len(data)))[:, 0]
    for name in names:
        (folder / name).mkdir(parents=True)
        for position in np.flatnonzero(levels == DIGITS[name])[:per_class]:
            pixels = (data.take([int(position)])[0, 0] * 255).round().byte().numpy()
            Image.fromarray(pixels).save(folder / name / f"{position:04}.png")


def call(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of three classes and one of new pictures, which has only two of them."""
    place = tmp_path_factory.mktemp("classes")
    write_digits(place / "digits", untwine.dataset("digits(size=16)"), NAMES, 30)
    new = untwine.dataset("digits(size=16, split=test)")
    write_digits(place / "new", new, ("three", "seven"), 4)
    return place


@pytest.fixture(scope="module")
def run(place):
    words = f"train vae+conditional {place / 'digits'} {LABELS} {OPTIONS} --out {place / 'runs'}"
    return untwine.open_run(call(*words.split()).strip())


def test_the_classes_are_labels_and_named_after_their_folders(run):
    assert run.path.name.startswith("conditional+vae-digits-")
    assert run.model.labels == {"class": NAMES} and len(run.data) == 90


def test_codes_of_new_pictures_have_file_and_class(run, place, tmp_path):
    call("encode", run.path, place / "new", "--out", tmp_path / "codes.csv", "--quiet")
    table = pd.read_csv(tmp_path / "codes.csv")
    assert list(table["class"]) == ["seven"] * 4 + ["three"] * 4
    assert [name.partition("/")[0] for name in table["example"]] == list(table["class"])
    data = untwine.dataset(str(place / "new"), labels="folders")
    codes = run.model.given({"class": list(table["class"])}).encode(data.take(range(8)))
    assert np.allclose(table[["z0", "z1", "z2"]], codes, atol=1e-5)


def test_samples_of_a_class_are_those_of_its_name(run, tmp_path):
    file = tmp_path / "samples.npy"
    call("sample", run.path, "--count", 5, "--label", "class=three", "--out", file)
    assert np.array_equal(np.load(file), run.model.given({"class": 2}).sample(5, seed=0).numpy())
    with pytest.raises(ParameterError, match=r"not seen class 'two'; .* are one, seven, three"):
        call("sample", run.path, "--label", "class=two")


def test_pictures_without_a_class_need_one(run, place, tmp_path):
    loose = tmp_path / "loose"
    loose.mkdir()
    source = next((place / "new" / "three").glob("*.png"))
    (loose / "a.png").write_bytes(source.read_bytes())
    with pytest.raises(DataError, match="needs the labels of its examples \\(class\\)"):
        call("encode", run.path, loose, "--out", tmp_path / "codes.csv", "--quiet")
    call("encode", run.path, loose, "--label", "class=three", "--out", tmp_path / "codes.npy", "-q")
    assert np.load(tmp_path / "codes.npy").shape == (1, 3)


def test_the_explorer_calls_examples_by_their_files_everywhere(run):
    view = RunView(run, name="digits", examples=20)
    name = {k: run.data.example_name(k) for k in range(len(run.data))}
    assert name[0].startswith("one/") and name[89].startswith("three/")
    for example in view.examples(5, 0):
        assert example.name == name[example.index]
        assert view.start_from(example.index).name == example.name
    view.measures.wait()
    shown = view.reconstructions(90, "unlikely").examples
    assert [one.name for one in shown] == list(outliers(run.model, run.data)["example"])
    space = view.space("pca", 0, 1, dots=40)
    assert space.names == [name[k] for k in space.index] and len(space.names) == 40
    (factor,) = view.summary().factors
    assert factor.level_names == [*NAMES] and not factor.ordered
