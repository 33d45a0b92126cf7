"""Runs, studies, model folders and caches: files damaged, or changed and sealed again.

A damaged file must be named or have no effect: any other answer without a word is silent. A file
that was changed and sealed again is what someone else may send: it must not lead outside.
"""

import contextlib
import json
from pathlib import Path
from unittest import mock

from changes import (
    bind,
    change,
    change_codes,
    change_weights,
    damage,
    files_of,
    fresh,
    make_odd,
    prepare_private,
    read,
    seal,
)
from texts import command

SMALL = {"network": "mlp", "batch": 4, "latent": 2, "lr": 1e-3, "settings": ["mlp.width=4"]}
METRICS = ("reconstruction", "hoyer")
EXAMPLES = 40
ROW = {"step": 1, "loss": 2.5, "reconstruction": 2.0, "kl": 0.5, "seconds": 1.0}
PROGRESS = {"step": 2, "steps": 4, "seconds": 1.5}


def answer_of_run(path: Path) -> str:
    """All that a finished run says of itself."""
    import untwine
    from untwine.runs.directory import read_scores
    from untwine.tools.weights import pack_weights

    trained = untwine.open_run(path)
    record = json.dumps(trained.record, sort_keys=True)
    weights = hash(pack_weights(trained.model))
    return repr((record, list(trained.history), read_scores(path), weights))


def make_run(place: Path) -> Path:
    import untwine
    from untwine.scoring.evaluation import evaluate_run

    spec = untwine.plan("vae", "digits", steps=4, **SMALL)
    path = untwine.run(spec, place, quiet=True, threads=1)
    evaluate_run(path, list(METRICS), n_examples=EXAMPLES)
    return path


def damaged_run_door(place: Path, private: Path):
    """A file of a finished run is damaged."""
    from trials import Trial

    good = make_run(place / "good")
    expected = answer_of_run(fresh(good, place / "runs" / good.name))
    names = [p.name for p in files_of(good)]

    def trial(rng):
        path = fresh(good, place / "runs" / good.name)
        name = rng.choice(names)
        (path / name).write_bytes(damage((path / name).read_bytes(), rng))
        return Trial(name, lambda: answer_of_run(path), expected=expected)

    return trial


def received_run_door(place: Path, private: Path):
    """A run of someone else: JSON, history and weights are changed and sealed again."""
    from trials import Trial

    words, good = prepare_private(private), make_run(place / "good")
    codes = place / "codes.npy"
    import numpy as np

    np.save(codes, np.zeros((3, 2), np.float32))

    def trial(rng):
        path = fresh(good, place / "runs" / good.name)
        (path / ".mark").unlink(missing_ok=True)
        name = rng.choice(
            (
                *("run.json", "run.json", "done.json", "scores.json"),
                *("weights", "history.csv", "progress.json", "odd"),
            )
        )
        if name == "progress.json":
            (path / "done.json").unlink()
            seal(path / name, change({**PROGRESS, "history": [ROW, ROW]}, rng, words))
        elif name == "weights":
            weights = (path / "model.safetensors").read_bytes()
            (path / "model.safetensors").write_bytes(change_weights(weights, rng))
        elif name == "history.csv":
            (path / name).write_bytes(damage((path / name).read_bytes(), rng))
        elif name == "odd":
            name = make_odd(path, private, rng)  # which nothing here reads
        else:
            seal(path / name, change(read(path / name), rng, words))
        if " of kind " not in name and name != "progress.json" and rng.random() < 0.8:
            bind(path)
        use = rng.choice(
            (
                ["runs", "--out", str(path.parent)],
                ["evaluate", str(path), "--metrics", "hoyer", "--examples", "50", "--quiet"],
                ["report", str(path), "--metrics", "reconstruction", "--examples", "50", "--quiet"],
                ["encode", str(path), "--out", str(place / "x.npz"), "--quiet", "--draws", "1"],
                ["decode", str(path), str(codes), "--out", str(place / "x.npy")],
                ["sample", str(path), "--count", "2", "--out", str(place / "x.npy")],
                ["export", str(path), str(place / "model")],
                ["check", str(path)],
                ["explore", str(path), "--export", str(place / "copy")],
            )
        )
        return Trial(f"{name} {use[0]}", lambda: command(*use), 2**29)

    return trial


def damaged_model_door(place: Path, private: Path):
    """A file of a model folder is damaged, or changed and sealed again."""
    from trials import Trial

    import untwine
    from untwine.tools.files import sha256
    from untwine.tools.weights import pack_weights

    good = untwine.open_run(make_run(place / "good")).model.save(place / "model")
    words = prepare_private(private)

    def answer(path):
        model = untwine.load(path)
        return repr((model.card, hash(pack_weights(model))))

    expected = answer(good)

    def trial(rng):
        path = fresh(good, place / "copy")
        name = rng.choice(("model.json", "model.safetensors"))
        if rng.random() < 0.4:
            (path / name).write_bytes(damage((path / name).read_bytes(), rng))
            return Trial(f"damaged {name}", lambda: answer(path), expected=expected)
        record = read(path / "model.json")
        if name == "model.safetensors":
            (path / name).write_bytes(change_weights((path / name).read_bytes(), rng))
            record["weights"] = sha256((path / name).read_bytes())
        else:
            record = change(record, rng, words)
        seal(path / "model.json", record)
        use = rng.choice(
            (
                ["encode", str(path), "--out", str(place / "x.npz"), "--quiet", "--draws", "1"],
                ["sample", str(path), "--count", "2", "--out", str(place / "x.npy")],
            )
        )
        return Trial(f"changed {name} {use[0]}", lambda: command(*use), 2**29)

    return trial


def make_study(place: Path) -> Path:
    from dataclasses import replace

    import untwine
    from untwine.study.file import Study
    from untwine.study.folder import make_folder
    from untwine.study.job import finish_job

    spec = untwine.plan("vae", "digits", steps=4, **SMALL)
    runs = tuple(replace(spec, seed=seed) for seed in range(2))
    study = Study("study", runs, ("hoyer", "udr"), EXAMPLES, "about")
    folder = make_folder(study, place)
    with mock.patch("untwine.study.job.N_STORED_CODES", EXAMPLES):
        for job in folder.jobs():
            finish_job(job)
    return folder.path


def answer_of_study(path: Path) -> str:
    from untwine.study.folder import open_folder, runs_by_state
    from untwine.study.table import results_table

    folder = open_folder(path)
    states = {state: len(jobs) for state, jobs in runs_by_state(folder).items()}
    return repr((folder.study.about, states, results_table(folder).to_csv()))


def damaged_study_door(place: Path, private: Path):
    """A file of a study or of one of its runs is damaged."""
    from trials import Trial

    good = make_study(place / "good")
    expected = answer_of_study(fresh(good, place / "studies" / "study"))
    names = [p.relative_to(good) for p in files_of(good)]
    shown = ("study.json", "scores.json", "codes.npz", "done.json", "run.json")
    names = [name for name in names if name.name in shown]

    def trial(rng):
        path = fresh(good, place / "studies" / "study")
        name = rng.choice(names)
        (path / name).write_bytes(damage((path / name).read_bytes(), rng))
        told = lambda answer: "'failed': 1" in answer  # noqa: E731 - `study status` says why
        return Trial(str(name), lambda: answer_of_study(path), expected=expected, is_told=told)

    return trial


def received_study_door(place: Path, private: Path):
    """A study of someone else: study.json and files of its runs are changed and sealed again."""
    from trials import Trial

    words, good = prepare_private(private), make_study(place / "good")
    words += (f"file://{private}", "http://127.0.0.1:9/x", "reference://x", "data://x", "dir://x")

    def trial(rng):
        path = fresh(good, place / "studies" / "study")
        for mark in path.rglob(".mark"):
            mark.unlink()
        run = rng.choice(sorted((path / "runs").iterdir()))
        name = rng.choice(("study.json",) * 3 + ("run", "failed.json", "codes.npz"))
        if name == "study.json":
            content = change(read(path / name), rng, words)
            if rng.random() < 0.2:
                content["place"] = rng.choice(words)
            seal(path / name, content)
        elif name == "codes.npz":
            change_codes(run, rng)
        elif name == "failed.json":
            (run / "done.json").unlink()
            seal(run / name, change({"attempts": 1, "reason": "x"}, rng, words))
        else:
            name = rng.choice(("run.json", "done.json", "scores.json"))
            seal(run / name, change(read(run / name), rng, words))
            if rng.random() < 0.8:
                bind(run)
        out = ["--out", str(path.parent)]
        use = rng.choice(
            (
                ["list"],
                ["status", "study"],
                ["results", "study"],
                ["table", "study"],
                ["best", "study"],
            )
        )
        words_of_use = ["study", *use, *out]
        if rng.random() < 0.2:
            words_of_use = ["explore", str(path), "--export", str(place / "copy")]
        return Trial(f"{name} {words_of_use[:2]}", lambda: command(*words_of_use), 2**29)

    return trial


IMPORTED = (
    "model,setting,value,data,seed,run,mig\n"
    "beta-vae,beta-vae beta=1,1,dsprites,0,a,0.25\nbeta-vae,beta-vae beta=1,1,dsprites,1,b,0.5\n"
    "beta-vae,beta-vae beta=4,4,dsprites,0,c,0.75\nbeta-vae,beta-vae beta=4,4,dsprites,1,d,0.5\n"
)


def imported_study_door(place: Path, private: Path):
    """A study of imported results: damaged, or with another table that fits its checksum."""
    from trials import Trial, mutate

    from untwine.study.published import import_published
    from untwine.study.table import results_table
    from untwine.tools.files import sha256

    (place / "x.csv").write_text(IMPORTED)
    good = import_published([place / "x.csv"], "study", place / "good")[0].path
    expected = results_table(good).to_csv()

    def trial(rng):
        path = fresh(good, place / "studies" / "study")
        table = (path / "imported.csv").read_bytes()
        if rng.random() < 0.3:
            name = rng.choice(("study.json", "imported.csv"))
            (path / name).write_bytes(damage((path / name).read_bytes(), rng))
            return Trial(name, lambda: results_table(path).to_csv(), expected=expected)
        table = mutate(table, table, rng, text=rng.random() < 0.7)
        (path / "imported.csv").write_bytes(table)
        (path / ".mark").unlink()
        seal(path / "study.json", read(path / "study.json") | {"imported": sha256(table)})
        use = rng.choice(("list", "status", "results", "table", "best", "report"))
        words = ["study", use, *(["study"] if use != "list" else []), "--out", str(path.parent)]
        if rng.random() < 0.2:
            words = ["explore", str(path), "--export", str(place / "copy")]
        return Trial(f"{words[:2]} {table!r:.500}", lambda: command(*words), 2**29)

    return trial


def cache_door(place: Path, private: Path):
    """A file of the cache is damaged: it is made again, or named."""
    import runpy

    import numpy as np
    from trials import HERE, Trial

    import untwine
    from untwine.estimators import pretrained
    from untwine.registry import metrics
    from untwine.scoring import references

    path = place / "3dshapes.h5"
    path.write_bytes(runpy.run_path(str(HERE / "containers.py"))["hdf5"]())
    images, factors = np.ones((4, 1, 2, 2), np.float32), np.arange(8).reshape(4, 2) % 3
    compute = lambda codes, choice: {"x": float(np.abs(codes.codes).sum())}  # noqa: E731

    def answer():
        pretrained._remembered.clear()
        references._memory.clear()
        data = untwine.datasets.shapes3d(path=str(path))
        features = pretrained.cached_features(
            images, pretrained.INCEPTION_WEIGHTS, lambda x: x.reshape(len(x), -1)
        )
        scores = references.reference_scores(metrics.read("mig"), factors, None, compute)
        pixels = data.take([0, 1]).numpy().tobytes() + bytes(data.factors.levels_at([0, 1]))
        return pixels + np.asarray(features).tobytes() + repr(scores).encode()

    expected = answer()
    good = fresh(place / "cache", place / "good-cache")
    names = [p.relative_to(good) for p in files_of(good) if p.suffix in (".npy", ".json")]

    def trial(rng):
        cache = fresh(good, place / "cache")
        name = rng.choice(names)
        (cache / name).write_bytes(damage((cache / name).read_bytes(), rng))
        return Trial(str(name), answer, expected=expected)

    return trial


def unfinished_run_door(place: Path, private: Path):
    """A checkpoint or run.json of an interrupted run is damaged: it ends as it would have."""
    from trials import Trial

    import untwine
    from untwine.runs.directory import read_done

    spec = untwine.plan("vae", "digits", steps=8, **SMALL)
    steps = iter(range(100))
    stop = lambda: contextlib.nullcontext(lambda: next(steps) >= 4)  # noqa: E731
    with (
        mock.patch("untwine.runs.training.stop_requested", stop),
        contextlib.suppress(KeyboardInterrupt),
    ):
        untwine.run(spec, place / "good", quiet=True, threads=1, checkpoint_every=2)

    def answer(out):
        return read_done(untwine.run(spec, out, quiet=True, threads=1))["weights"]

    expected = answer(fresh(place / "good", place / "runs"))
    names = [p.relative_to(place / "good") for p in files_of(place / "good")]

    def trial(rng):
        out = fresh(place / "good", place / "runs")
        name = rng.choice(names)
        (out / name).write_bytes(damage((out / name).read_bytes(), rng))
        return Trial(str(name), lambda: answer(out), expected=expected)

    return trial


DOORS = {
    "damaged runs": damaged_run_door,
    "received runs": received_run_door,
    "model folders": damaged_model_door,
    "damaged studies": damaged_study_door,
    "received studies": received_study_door,
    "imported studies": imported_study_door,
    "cache": cache_door,
    "unfinished runs": unfinished_run_door,
}
