"""wandb and MLflow receive every row once, also after a resume and from two workers at once."""

import pytest

import untwine

pytestmark = pytest.mark.filterwarnings("default")  # the libraries warn about each other
NUMBERS = {"network": "mlp(width=16)", "latent": 3, "steps": 60, "quiet": True, "threads": 1}
DATA = "sprites(size=16)"


def interrupt_at(step):
    def on_row(row):
        if row["step"] == step:
            raise KeyboardInterrupt

    return on_row


def train_twice(out, track):
    """A run that was interrupted after its checkpoint, and resumed."""
    options = {**NUMBERS, "track": track, "checkpoint_every": 25}
    with pytest.raises(KeyboardInterrupt):
        untwine.train_run("vae", DATA, out, on_row=interrupt_at(40), **options)
    return untwine.train_run("vae", DATA, out, **options)


class TestMLflow:
    @pytest.fixture(autouse=True)
    def library(self, tmp_path, monkeypatch):
        self.mlflow = pytest.importorskip("mlflow")
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        monkeypatch.chdir(tmp_path)

    def read(self, out):
        """Rows by run: {hash: {name: [(step, value), ...]}}, and the pictures."""
        client = self.mlflow.MlflowClient(tracking_uri=f"sqlite:///{out}/mlflow.db")
        experiment = client.get_experiment_by_name("untwine").experiment_id
        runs = client.search_runs([experiment])
        rows = {
            run.data.tags["untwine_hash"]: {
                name: [
                    (row.step, row.value)
                    for row in client.get_metric_history(run.info.run_id, name)
                ]
                for name in run.data.metrics
            }
            for run in runs
        }
        return rows, {path.name for path in (out / "mlflow").rglob("*.png")}

    def test_every_row_and_pictures(self, tmp_path):
        run = untwine.train_run("beta-tcvae", DATA, tmp_path / "runs", track="mlflow", **NUMBERS)
        rows, pictures = self.read(tmp_path / "runs")
        (terms,) = rows.values()
        for name in ("loss", "nll", "kl", "tc"):
            assert terms[name] == [(row["step"], row[name]) for row in run.history]
        assert pictures == {"samples.png", "traversals.png"}
        assert {path.name for path in tmp_path.iterdir()} == {"runs"}  # nothing lies around

    def test_a_resumed_run_has_every_row_once(self, tmp_path):
        run = train_twice(tmp_path, "mlflow")
        rows, _ = self.read(tmp_path)
        assert rows[run.spec.hash]["loss"] == [(row["step"], row["loss"]) for row in run.history]
        assert len(rows[run.spec.hash]["kl"]) == len(run.history)

    def test_two_workers_of_a_study_share_the_database(self, tmp_path):
        file = tmp_path / "study.yaml"
        file.write_text(
            "study: small\nmodels: {vae: {}}\ndata: ['sprites(size=16)']\nseeds: 4\n"
            "training: {network: mlp(width=16), steps: 20, latent: 3}\n"
        )
        study = untwine.study.read(str(file))
        outcome = untwine.study.run(
            study, tmp_path / "studies", workers=2, track="mlflow", quiet=True
        )
        assert len(outcome.done) == 4 and not outcome.failed
        rows, _ = self.read(outcome.done[0].path.parent)
        assert len(rows) == 4
        assert all([step for step, _ in terms["loss"]] == [10, 20] for terms in rows.values())


class TestWandb:
    @pytest.fixture(autouse=True)
    def library(self, tmp_path, monkeypatch):
        self.wandb = pytest.importorskip("wandb")
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_SILENT", "true")
        monkeypatch.delenv("WANDB_PROJECT", raising=False)

    def read(self, out):
        """Values of the loss by step, over all files of a run, and the names of its pictures."""
        rows, pictures = {}, set()
        for folder in sorted((out / "wandb").glob("offline-run-*")):
            (file,) = folder.glob("*.wandb")
            rows |= read_history(file)
            pictures |= {path.name.partition("_")[0] for path in folder.rglob("*.png")}
        return rows, pictures

    def test_every_row_and_pictures(self, tmp_path):
        run = untwine.train_run("vae", DATA, tmp_path, track="wandb", **NUMBERS)
        rows, pictures = self.read(tmp_path)
        assert rows == {row["step"]: row["loss"] for row in run.history}
        assert pictures == {"samples", "traversals"}

    def test_a_resumed_run_has_every_row(self, tmp_path):
        run = train_twice(tmp_path, "wandb")
        rows, _ = self.read(tmp_path)
        assert rows == {row["step"]: row["loss"] for row in run.history}
        folders = list((tmp_path / "wandb").glob("offline-run-*"))
        assert len(folders) == 2 and all(run.spec.hash in folder.name for folder in folders)


def read_history(file):
    """The loss by step in wandb's own file: records in blocks, as in LevelDB's log."""
    import json

    from wandb.proto import wandb_internal_pb2 as messages

    rows = {}
    for record in records(file.read_bytes()):
        message = messages.Record()
        message.ParseFromString(record)
        items = {
            "".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in message.history.item
        }
        if "loss" in items:
            rows[items["_step"]] = items["loss"]
    return rows


def records(content, block=32768, header=7):
    """The records of a log: pieces with checksum, length and kind, none across a block."""
    position, parts = header, b""  # the file begins with a header of its own
    while position + header <= len(content):
        left = block - position % block
        if left < header:
            position += left
            continue
        size = int.from_bytes(content[position + 4 : position + 6], "little")
        kind = content[position + 6]
        if not kind:
            return
        parts += content[position + header : position + header + size]
        position += header + size
        if kind in (1, 4):  # whole, or the last piece
            yield parts
            parts = b""
