"""The command, as a person types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from untwine.cli import main
from untwine.registry import datasets, metrics, models

TRAIN = "train beta-vae sprites --set size=16 --set width=4 --steps 12 --batch 8 --latent 3 -q"


@pytest.fixture
def untwine_command(monkeypatch, capsys, runs):
    """Run the command in this process; what it printed and its exit code come back."""

    def call(line):
        monkeypatch.setattr(sys, "argv", ["untwine", *line.split()])
        try:
            main.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_road_from_data_to_report(untwine_command, runs):
    code, out, err = untwine_command(TRAIN)
    assert code == 0 and "finished:" in err
    assert (runs / out.strip().rpartition("/")[2] / "done.json").exists()
    code, out, _ = untwine_command("evaluate beta-vae --examples 50 -q")
    assert code == 0 and out.splitlines()[0].split("\t") == [
        "score",
        "value",
        "random",
        "rotated",
        "perfect",
    ]
    before = next(runs.glob("*/scores.json")).read_bytes()
    code, out, _ = untwine_command("report beta-vae -q")
    assert code == 0 and out.strip().endswith("report.html")
    assert "of 50 random examples" in Path(out.strip()).read_text("utf-8")
    assert next(runs.glob("*/scores.json")).read_bytes() == before, "nothing is scored again"
    code, out, _ = untwine_command("runs")
    assert code == 0 and "finished" in out and "mig" in out


@pytest.mark.parametrize(("own", "used"), [(None, main.SPIN_COUNT), ("7", "7")])
def test_waiting_threads_spin_as_long_as_the_user_says(untwine_command, monkeypatch, own, used):
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    if own is None:
        monkeypatch.delenv("GOMP_SPINCOUNT")
    assert untwine_command("--version")[0] == 0
    assert os.environ["GOMP_SPINCOUNT"] == used


def test_a_directory_whose_name_is_not_utf_8_is_printed(tmp_path, monkeypatch, capfdbinary):
    out = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9")
    monkeypatch.setattr(sys, "argv", ["untwine", *TRAIN.split(), "--out", out])
    with pytest.raises(SystemExit, match="0"):
        main.main()
    printed, told = capfdbinary.readouterr()
    assert (Path(os.fsdecode(printed.rstrip(b"\n"))) / "done.json").exists()
    assert rb"\xff\xe9/beta-vae" in told


def test_training_again_reuses_the_run(untwine_command):
    assert untwine_command(TRAIN)[0] == 0
    code, _, err = untwine_command(TRAIN)
    assert code == 0 and "already finished" in err


def test_scores_as_json(untwine_command):
    untwine_command(TRAIN)
    code, out, _ = untwine_command("evaluate beta-vae --metrics mig --examples 50 --json -q")
    assert code == 0 and set(json.loads(out)["mig"]["references"]) == {
        "perfect",
        "rotated",
        "random",
    }


@pytest.mark.parametrize(
    ("kind", "registry"), [("models", models), ("datasets", datasets), ("metrics", metrics)]
)
def test_catalogues_list_and_show_everything(untwine_command, kind, registry):
    code, out, _ = untwine_command(kind)
    assert code == 0
    for name in registry:
        assert f"\n{name}\t" in out
        shown = untwine_command(f"{kind} show {name}")[1]
        assert registry[name].title in shown and registry[name].paper in shown
        assert all(parameter in shown for parameter in registry[name].parameters)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train beta-va sprites", "did you mean 'beta-vae'"),
        ("train vae sprits", "did you mean 'sprites'"),
        ("train vae sprites --set size=9", "16 to 128"),
        ("train vae sprites --device tpu --set size=16", "device must be"),
        ("train vae sprites --batch 999999 --set size=16", "cannot be drawn"),
        ("train vae sprites --network conv --set network=3", "no setting named"),
        ("train vae sprites --set size=16 --out pyproject.toml", "pyproject.toml"),
        ("evaluate nothing", "there is no run 'nothing'"),
        ("report nothing", "there is no run 'nothing'"),
        ("models show beta", "did you mean"),
        ("metrics show mg", "did you mean 'mig'"),
    ],
)
def test_mistakes_are_one_sentence_and_a_bad_exit(untwine_command, line, sentence):
    code, out, err = untwine_command(line)
    assert code in (1, 2) and out == ""
    assert sentence in err and err.count("\n") == 1 and err.startswith("error: ")


def test_an_unknown_metric_is_refused_before_anything_is_lost(untwine_command, runs):
    untwine_command(TRAIN)
    untwine_command("evaluate beta-vae --metrics mig --examples 50 -q")
    before = next(runs.glob("*/scores.json")).read_bytes()
    code, _, err = untwine_command("evaluate beta-vae --metrics mgi --examples 50 -q")
    assert code == 1 and "did you mean 'mig'" in err
    assert next(runs.glob("*/scores.json")).read_bytes() == before


def test_no_runs_is_no_error(untwine_command):
    code, out, err = untwine_command("runs")
    assert code == 0 and out == "" and "no runs" in err


def test_your_own_images_travel_the_whole_road(untwine_command, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "mine.npz",
        images=rng.integers(0, 255, (64, 12, 20, 3), dtype=np.uint8),
        factors=rng.integers(3, size=(64, 2)),
    )
    line = f"train vae {tmp_path}/mine.npz --steps 5 --batch 8 --set width=4 -q"
    assert untwine_command(line)[0] == 0
    assert untwine_command("report vae-mine --metrics mig,reconstruction -q")[0] == 0


def test_a_folder_that_is_called_like_a_dataset_is_told(untwine_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    code, _, error = untwine_command("train vae digits --network mlp --steps 1 --batch 4 -q")
    assert code == 0 and "write ./digits for your own" in error


def test_vectors_travel_the_whole_road(untwine_command, tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).standard_normal((64, 5)))
    assert untwine_command(f"train vae {tmp_path}/v.npy --steps 5 --batch 8 -q")[0] == 0
    assert untwine_command("report vae-v- --examples 50 -q")[0] == 0


def test_ctrl_c_saves_and_says_how_to_go_on(runs):
    line = TRAIN.replace("--steps 12", "--steps 100000")
    process = subprocess.Popen(
        [sys.executable, "-m", "untwine", *line.split(), "--checkpoint-every", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not list(runs.glob("*/states/*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to resume" in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("score CODES --metrics hoyer --rows 50", "--examples"),
        ("study plan constrained-vaes --scale smoke --no-timing", "--no-estimate"),
        ("study run constrained-vaes --scale smoke --on nowhere", "--backend"),
    ],
)
def test_old_spellings_of_options_work_with_a_warning(untwine_command, tmp_path, old, new):
    np.save(tmp_path / "codes.npy", np.random.default_rng(0).standard_normal((60, 3)))
    code, _, error = untwine_command(old.replace("CODES", str(tmp_path / "codes.npy")))
    assert f"is now called {new}" in error
    assert code == 0 or "--backend is local, ray" in error
