"""The whole way of a model: photos, run, codes, outliers, model folder, without the photos."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.data import opening
from untwine.errors import DataError, RunError
from untwine.scoring.outputs import write_codes, write_examples


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    """A run trained on a folder of photos, which is then moved away."""
    place = tmp_path_factory.mktemp("way")
    rng = np.random.default_rng(0)
    (place / "photos").mkdir()
    for number in range(30):
        disc = np.hypot(*np.mgrid[-6:6, -6:6]) < 2 + 3 * rng.random()
        Image.fromarray((disc * 255).astype(np.uint8)).save(place / "photos" / f"{number:02d}.png")
    run = untwine.train_run(
        *("vae", str(place / "photos"), place / "runs"),
        **{"size": 8, "network": "mlp", "width": 32, "latent": 2, "steps": 300, "batch": 10},
        **{"lr": 1e-2, "quiet": True},
    )
    (place / "photos").rename(place / "album")
    opening._LOADED.clear()
    Image.fromarray(rng.integers(0, 256, (12, 12)).astype(np.uint8)).save(place / "album/noise.png")
    return place, run


def call(*words, code=0):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_codes_of_new_photos_are_written_with_their_file_names(way, tmp_path):
    place, run = way
    call("encode", run.path, place / "album", "--out", tmp_path / "codes.csv", "-q")
    table = pd.read_csv(tmp_path / "codes.csv")
    expected = ["example", "z0", "z1", "sd0", "sd1", "kl", "log_likelihood", "error"]
    assert list(table.columns) == expected and len(table) == 31
    assert table["example"].tolist()[0] == "00.png" and "noise.png" in set(table["example"])
    data = untwine.dataset(str(place / "album"), size=8)
    codes = run.model.encode(data.take(range(31))).numpy()
    assert np.allclose(table[["z0", "z1"]], codes, atol=1e-5)


def test_the_planted_outlier_is_the_least_likely(way, tmp_path):
    place, run = way
    shown = call("outliers", run.path, place / "album", "--count", 3, "-q")
    assert shown.splitlines()[1].startswith("noise.png")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy", ".npz"])
def test_every_form_holds_the_same_codes(way, tmp_path, ending):
    place, run = way
    file = tmp_path / f"codes{ending}"
    call("encode", run.path, place / "album", "--out", file, "--draws", 0, "-q")
    readers = {
        ".csv": lambda: pd.read_csv(file)[["z0", "z1"]],
        ".tsv": lambda: pd.read_csv(file, sep="\t")[["z0", "z1"]],
        ".parquet": lambda: pd.read_parquet(file)[["z0", "z1"]],
        ".npy": lambda: np.load(file),
        ".npz": lambda: np.load(file)["codes"],
    }
    data = untwine.dataset(str(place / "album"), size=8)
    assert np.allclose(readers[ending](), run.model.encode(data.take(range(31))), atol=1e-5)


def test_a_model_folder_is_used_like_a_run(way, tmp_path):
    place, run = way
    call("export", run.path, tmp_path / "model")
    for name in (run.path, tmp_path / "model"):
        call("encode", name, place / "album", "--out", tmp_path / "codes.npz", "-q")
        call("decode", name, tmp_path / "codes.npz", "--out", tmp_path / "decoded.npy")
        call("sample", name, "--count", 5, "--out", tmp_path / "samples.png")
        call("reconstruct", name, place / "album", "--out", tmp_path / "pictures")
    assert np.load(tmp_path / "decoded.npy").shape == (31, 1, 8, 8)
    with Image.open(tmp_path / "samples.png") as picture:
        assert picture.size == (28, 18)
    assert len(list((tmp_path / "pictures").iterdir())) == 31
    assert (tmp_path / "pictures" / "noise.png").exists()


def test_codes_are_those_that_are_scored():
    data = untwine.from_arrays(
        np.random.default_rng(0).random((60, 4, 4)), np.arange(60)[:, None] % 4
    )
    model = untwine.build("vae", data, network="mlp", **{"mlp.width": 16})
    untwine.fit(model, data, steps=20, batch=8, quiet=True)
    table = untwine.codes(model, data)
    representation = untwine.Representation(model, data, n_examples=30)
    columns = [f"z{d}" for d in range(10)]
    rows = table.iloc[representation.index]
    assert np.allclose(rows[columns], representation.codes, atol=1e-6)
    assert (rows["factor 1"].to_numpy()[:, None] == representation.factors).all()


@pytest.fixture(scope="module")
def labelled():
    """A model and 240 examples with an ordered factor and one of named classes without an order."""
    rng = np.random.default_rng(0)
    levels = np.stack([np.arange(240) % 3, np.arange(240) // 3 % 4], 1)
    images = rng.random((240, 4, 4)) * 0.2 + 0.2 * levels[:, :1, None] + 0.1 * levels[:, 1:, None]
    data = untwine.from_arrays(
        *(images, levels),
        names=("kind", "error"),
        unordered=("kind",),
        level_names={"kind": ("pear", "-apple", "fig")},
    )
    model = untwine.build("vae", data, network="mlp", latent=3, **{"mlp.width": 16})
    untwine.fit(model, data, steps=100, batch=16, lr=1e-2, quiet=True)
    return model, data


def test_levels_are_named_in_tables_and_numbered_in_arrays(labelled, tmp_path):
    model, data = labelled
    table = untwine.codes(model, data, draws=0)
    assert table["kind"].tolist()[:4] == ["pear", "-apple", "fig", "pear"]
    assert not table["kind"].cat.ordered and table["factor error"].tolist()[:4] == [0, 0, 0, 1]
    assert table["error"].between(0, 0.5).all()  # not overwritten by the factor of that name
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    readers[".tsv"] = lambda file: pd.read_csv(file, sep="\t")
    for ending, read in readers.items():
        write_codes(table, tmp_path / f"codes{ending}")
        again = read(tmp_path / f"codes{ending}")
        assert again["kind"].tolist()[:3] == ["pear", "'-apple", "fig"]  # no formula
        assert again["factor error"].tolist() == table["factor error"].tolist()
    write_codes(table, tmp_path / "codes.npz")
    with np.load(tmp_path / "codes.npz") as arrays:
        assert np.array_equal(arrays["factors"], data.factors.table)
        assert arrays["factor_names"].tolist() == ["kind", "factor error"]
        assert arrays["unordered"].tolist() == [0]


def test_encoding_and_scoring_equals_evaluating(labelled, tmp_path):
    model, data = labelled
    names = ["mig", "sap", "modularity", "explicitness"]
    scores = untwine.evaluate(model, data, names)
    subject = untwine.Representation(model, data)
    table = untwine.codes(model, data, draws=0)
    write_codes(table.iloc[subject.index], tmp_path / "codes.npz")
    write_codes(table.iloc[subject.test_index], tmp_path / "test.npz")
    words = ["score", tmp_path / "codes.npz", "--test-codes", tmp_path / "test.npz", "--json"]
    printed = json.loads(call(*words, "--metrics", ",".join(names), "-q"))
    for name in names:
        assert printed[name]["values"] == pytest.approx(scores[name].values, abs=1e-5)
        assert printed[name]["references"] == scores[name].references


def test_an_npz_whose_order_of_factors_makes_no_sense_is_refused(tmp_path):
    arrays = {"codes": np.random.default_rng(0).random((20, 2)), "factors": np.arange(20)[:, None]}
    for unordered in (np.array([1]), np.array([[0]]), np.array(["kind"]), np.array([-1])):
        np.savez(tmp_path / "codes.npz", unordered=unordered, **arrays)
        with pytest.raises(DataError, match=r"unordered in .* must hold positions of factors"):
            call("score", tmp_path / "codes.npz")


def test_the_last_batch_of_codes_is_as_large_as_the_others_where_it_counts():
    data = untwine.from_arrays(np.random.default_rng(0).random((70, 4, 4)))
    model = untwine.build("ug-vae", data, network="mlp", latent=2, shared=2, clusters=2, width=8)
    table = untwine.codes(model, data)
    assert list(table.columns) == ["example", "z0", "z1", "z2", "z3", "error"]
    codes = table[["z0", "z1", "z2", "z3"]].to_numpy()
    whole = [model.encode(data.take(range(64))), model.encode(data.take(range(6, 70)))[58:]]
    assert np.allclose(codes, np.concatenate(whole), atol=1e-5)


def test_codes_without_deviations_are_written_without_them(tmp_path):
    data = untwine.from_arrays(np.random.default_rng(0).random((20, 4, 4)))
    model = untwine.build("sylvester", data, network="mlp", latent=2, width=8)
    write_codes(untwine.codes(model, data), tmp_path / "codes.npz")
    with np.load(tmp_path / "codes.npz") as arrays:
        assert "deviations" not in arrays and arrays["codes"].shape == (20, 2)


def test_without_the_data_the_sentence_says_what_to_name(way, tmp_path):
    _, run = way
    with pytest.raises(DataError, match="--data"):
        call("encode", run.path, "--out", tmp_path / "codes.csv")
    call("export", run.path, tmp_path / "model")
    with pytest.raises(DataError, match="name a folder"):
        call("encode", tmp_path / "model", "--out", tmp_path / "codes.csv")
    assert not (tmp_path / "codes.csv").exists()


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (["encode", "nothing"], RunError, "no run"),
        (["encode", "{run}", "{album}", "--out", "codes.xlsx"], DataError, "must end in"),
        (["decode", "{run}", "{bad}"], DataError, "3 columns"),
        (["sample", "{run}", "--out", "samples.csv"], DataError, "cannot hold images"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(way, tmp_path, words, error, sentence, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, run = way
    np.save(tmp_path / "bad.npy", np.zeros((2, 3)))
    known = {"run": run.path, "album": place / "album", "bad": tmp_path / "bad.npy"}
    with pytest.raises(error, match=sentence):
        call(*[word.format(**known) for word in words])


def test_a_loaded_model_needs_nothing_but_torch_and_numpy(way, tmp_path):
    _, run = way
    run.model.save(tmp_path / "model")
    script = (
        "import sys, numpy, torch, untwine\n"
        "for name in ('pandas', 'scipy', 'sklearn', 'numba', 'matplotlib', 'h5py', 'PIL'):\n"
        "    sys.modules[name] = None\n"
        f"model = untwine.load({str(tmp_path / 'model')!r})\n"
        "print(tuple(model.encode(torch.rand(3, 1, 8, 8)).shape), tuple(model.sample(2).shape))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "(3, 2) (2, 1, 8, 8)"


def test_tables_come_out_in_their_names_and_units(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"height": rng.normal(1.7, 0.1, 40), "weight": rng.normal(70, 9, 40)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    run = untwine.train_run(
        *("vae", str(tmp_path / "people.csv"), tmp_path / "runs"),
        **{"latent": 2, "steps": 20, "batch": 8, "quiet": True},
    )
    call("encode", run.path, "--out", tmp_path / "codes.csv", "-q")
    call("decode", run.path, tmp_path / "codes.csv", "--out", tmp_path / "decoded.csv")
    call("reconstruct", run.path, "--out", tmp_path / "again.csv")
    call("sample", run.path, "--count", 5, "--out", tmp_path / "samples.csv")
    decoded, again = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("decoded", "again"))
    assert list(decoded.columns) == ["example", "height", "weight"]
    assert np.allclose(decoded[["height", "weight"]], again[["height", "weight"]], atol=1e-3)
    assert 40 < pd.read_csv(tmp_path / "samples.csv")["weight"].mean() < 100
    codes = run.model.encode(frame)
    units = run.model.columns.restore(run.model.decode(codes))  # arrays in, arrays out
    assert np.allclose(units, again[["height", "weight"]], atol=1e-3)


def test_pictures_of_several_folders_do_not_overwrite_each_other(tmp_path):
    images = np.zeros((2, 1, 8, 8))
    write_examples(images, ["cat/1.png", "dog/1.png"], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cat-1.png", "dog-1.png"]
