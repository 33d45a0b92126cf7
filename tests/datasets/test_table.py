"""Tables from files: columns keep their names and units; a bad cell is named."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.data.conversion import as_dataset
from untwine.data.tables import as_table
from untwine.errors import DataError, UntwineError
from untwine.runs.finding import open_trained
from untwine.spec import plan
from untwine.tools.tables import write_parquet

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"height": RNG.normal(170, 10, 30), "weight": RNG.normal(70, 1000, 30), "age": range(30)}
)
SMALL = {"network": "mlp", "latent": 2, "steps": 3, "batch": 8, "width": 8}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.csv"
    FRAME.assign(kind=["cat", "dog"] * 15).to_csv(path, index=False)
    return path


def write(path, text):
    path.write_text(text)
    return str(path)


def test_columns_keep_their_names_and_their_units_come_back(file):
    data = untwine.dataset(str(file), factors="kind")
    assert data.columns.names == ("height", "weight", "age")
    x = data.take(np.arange(30)).numpy()
    assert np.allclose(x.mean(0), 0, atol=1e-6) and np.allclose(x.std(0), 1, atol=1e-5)
    assert np.allclose(data.columns.restore(x), FRAME.to_numpy(), rtol=1e-4, atol=1e-4)
    assert data.factors.level_name(0, 1) == "dog" and data.factors.unordered == ("kind",)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "semicolons"])
def test_every_format_is_the_same_table(tmp_path, ending):
    path = tmp_path / f"x.{'csv' if ending == 'semicolons' else ending}"
    if ending == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep={"tsv": "\t", "semicolons": ";"}.get(ending, ","))
    data = untwine.dataset(str(path))
    assert data.columns == as_dataset(FRAME).columns
    assert torch.equal(data.take([0, 7]), as_dataset(FRAME).take([0, 7]))


def test_a_first_column_without_a_name_names_the_rows(tmp_path):
    FRAME.set_index(pd.Index([f"person {i}" for i in range(30)])).to_csv(tmp_path / "x.csv")
    data = untwine.dataset(str(tmp_path / "x.csv"))
    assert data.example_name(4) == "person 4" and data.columns.names[0] == "height"
    text = "id,a\nx,1\ny,2\n"
    data = untwine.dataset(write(tmp_path / "y.csv", text), row_names="id")
    assert data.example_names == ("x", "y")


def test_a_file_of_bare_numbers_loses_no_row(tmp_path):
    data = untwine.dataset(write(tmp_path / "x.csv", "1,2\n3,4\n5,7\n"))
    assert len(data) == 3 and data.columns.names == ("column 1", "column 2")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n3,\n", "row 2, column 'b' is empty"),
        ("a,b\n1,2\ninf,3\n", "row 2, column 'a' is infinite"),
        ("a,a\n1,2\n3,4\n", "two columns are called 'a'"),
        ("a,b\n", "there are no rows"),
        ("", "it is empty"),
        ("a,b\n1,2\n3,x\n4,5\n", "row 2, column 'b' holds 'x'"),
        ("a,b\n1,2\n1,2,3,4\n", "differ in length"),
        ("a,kind\n1,cat\n2,dog\n", "'kind' holds words such as 'cat'"),
        ("kind\ncat\ndog\n", "holds words"),
    ],
)
def test_bad_files_are_refused_in_a_sentence_that_names_the_cell(tmp_path, text, sentence):
    path = write(tmp_path / "x.csv", text)
    with pytest.raises(DataError, match=sentence) as refusal:
        untwine.dataset(path)
    assert str(refusal.value).startswith(path)


def test_other_bad_tables(tmp_path, file):
    with pytest.raises(DataError, match="no column named 'knd'; did you mean 'kind'"):
        untwine.dataset(str(file), factors="knd")
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a Parquet file"):
        untwine.dataset(str(tmp_path / "x.parquet"))
    (tmp_path / "x.csv").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(DataError, match="UTF-8"):
        untwine.dataset(str(tmp_path / "x.csv"))
    with pytest.raises(DataError, match="the factor 'f' has empty cells"):
        as_table(pd.DataFrame({"a": [1, 2], "f": ["x", None]}), factors=["f"])


def test_the_cure_for_words_works():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "kind": ["x", "y", "x"], "b": [1.0, 0.0, 3.0]})
    with pytest.raises(DataError) as refusal:
        as_dataset(frame)
    names = {"frame": frame}
    exec("\n".join(line[2:] for line in str(refusal.value).splitlines()[1:]), names)
    assert as_dataset(names["frame"]).columns.names == ("kind_x", "kind_y", "a", "b")


def test_constant_columns_are_named_in_a_warning(capsys):
    data = as_dataset(FRAME.assign(one=5.0, two=3))
    untwine.build("vae", data)
    assert "2 columns are constant and say nothing: 'one', 'two'" in capsys.readouterr().err
    assert data.take([0]).isfinite().all()


def test_one_row_is_too_few_to_train_on(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match="there is one row"):
        untwine.plan("vae", path)


def test_a_large_constant_is_constant_and_large_numbers_keep_their_digits():
    frame = pd.DataFrame({"time": 1.7e9 + np.arange(30), "a": range(30)})
    x = as_dataset(frame).take(np.arange(30))
    assert torch.allclose(x[:, 0], x[:, 1], atol=1e-5)


def test_new_rows_are_standardised_by_the_numbers_of_the_model(file):
    data = untwine.dataset(str(file), factors="kind")
    model = untwine.build("vae", data, network="mlp", latent=2, width=8)
    assert model.columns == data.columns
    expected = model.encode(data)
    one = model.encode(FRAME.iloc[[5]])  # alone it has no deviation
    assert np.allclose(one, expected[5], atol=1e-5)
    assert np.allclose(model.encode(FRAME.to_numpy()), expected, atol=1e-5)
    turned = FRAME[["age", "height", "weight"]]
    assert np.allclose(model.encode(turned), expected, atol=1e-5)
    assert np.allclose(model.encode(as_dataset(turned[:10])), expected[:10], atol=1e-5)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (FRAME.drop(columns="age"), "'age' missing"),
        (FRAME.rename(columns={"age": "years"}), "'age' missing; 'years' not known to it"),
        (FRAME.assign(extra=1.0), "'extra' not known to it"),
    ],
)
def test_columns_that_differ_from_the_models_are_named(frame, sentence):
    model = untwine.build("vae", FRAME, network="mlp", latent=2, width=8)
    for use in (model.encode, lambda x: untwine.fit(model, x, steps=1, batch=4, quiet=True)):
        with pytest.raises(DataError, match=re.escape(sentence)):
            use(frame)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_trains_on_a_table(tmp_path, ending):
    path = tmp_path / f"people.{ending}"
    frame = FRAME.assign(kind=["cat", "dog"] * 15)
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    words = f"train vae {path} --set table.factors=kind --network mlp --set mlp.width=8 --latent 2"
    words = [*f"{words} --steps 3 --batch 8 -q --out".split(), str(tmp_path / "runs")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    trained = untwine.open_run(result.stdout.strip())
    assert trained.model.columns.names == ("height", "weight", "age")
    assert trained.data.factors.level_names == {"kind": ("cat", "dog")}


def test_without_its_library_the_extra_of_parquet_is_named(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (lambda: untwine.dataset(str(tmp_path / "x.parquet")), write_one):
        with pytest.raises(UntwineError, match=r"Parquet needs pyarrow; .*untwine\[parquet\]"):
            use()


def write_one():
    write_parquet(FRAME, Path("never.parquet"))


def test_a_run_of_a_table_keeps_its_columns(file, tmp_path):
    spec = plan("vae", str(file), settings=["table.factors=kind"], **SMALL)
    path = untwine.run(spec, tmp_path / "runs", quiet=True)
    trained = untwine.open_run(path)
    assert trained.model.columns == trained.data.columns
    trained.model.save(tmp_path / "model")
    file.unlink()
    model = untwine.load(tmp_path / "model")
    assert model.columns.names == ("height", "weight", "age")
    assert np.array_equal(model.encode(FRAME), trained.model.encode(FRAME))


def test_new_tables_are_read_as_the_models_own_was(file, tmp_path, capsys):
    trained = untwine.train_run(
        "vae", str(file), tmp_path / "runs", settings=["table.factors=kind"], quiet=True, **SMALL
    )
    trained.model.save(tmp_path / "model")
    expected = untwine.codes(trained.model, trained.data)
    FRAME[["age", "height", "weight"]].iloc[5:6].to_csv(tmp_path / "one.csv", index=False)
    one = str(tmp_path / "one.csv")  # one row in another order, without the factor
    places = [
        untwine.open_run(trained.path, data=one).data,
        open_trained(str(tmp_path / "model"), data=one).open_data(),
    ]
    for data in (*places, one):
        assert np.allclose(untwine.codes(trained.model, data)["z0"], expected["z0"][5], atol=1e-5)
    assert np.allclose(trained.model.encode(one)[0, 0], expected["z0"][5], atol=1e-5)
    assert "constant" not in capsys.readouterr().err
    FRAME.assign(age=np.nan).to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(DataError, match="row 1, column 'age' is empty"):
        untwine.codes(trained.model, str(tmp_path / "empty.csv"))
    with pytest.raises(DataError, match="examples must be numbers"):
        trained.model.encode(np.array([["a", "b", "c"]]))
    for codes in (np.zeros((2, 9)), np.zeros(2)):
        with pytest.raises(DataError, match="codes of this model have shape"):
            trained.model.decode(codes)
    FRAME.drop(columns="age").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError, match="'age' missing"):
        len(untwine.open_run(trained.path, data=str(tmp_path / "other.csv")).data)


def test_tables_in_the_unit_interval_take_their_likelihoods(tmp_path):
    frame = pd.DataFrame(RNG.random((20, 3)), columns=list("abc"))
    frame.to_csv(tmp_path / "x.csv", index=False)
    data = untwine.dataset(str(tmp_path / "x.csv"), bounded=True)
    assert data.in_unit_interval and not data.columns.are_standardised
    with pytest.raises(DataError, match=r"must lie in \[0, 1\]"):
        as_dataset(FRAME, bounded=True)
