"""Plug-ins, trackers, searches, papers of one's own, and recorded tables."""

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from unittest import mock

from changes import change, damage, fresh, prepare_private, read, seal
from texts import ODD, TRAIN, command, odd

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
ODD_SOURCES = (
    *(b"", b"\0", b"\xff\xfe", b"# coding: nothing\n", b"raise SystemExit(3)", b"1 / 0"),
    *(
        b"raise RecursionError",
        b"x = " + b"(" * 500,
        b"x = [" * 300,
        b"import nothing_of_this_name",
    ),
    b"raise Exception('\\x1b]0;x\\x07[/red]')",
    b"__version__ = object()",
    b"from untwine.registry import models; models['vae'].function(beta=3)",
)
CHANGES_OF_SOURCE = (
    (b"quiet_vae", b"vae"),
    (b"Quiet VAE", b"\x1b]0;x\x07[/red]"),
    (b"NonNegative = 1.0", b"NonNegative = float('nan')"),
    (b"NonNegative = 1.0", b"list = None"),
    (b"NonNegative = 1.0", b"'NoSuchType' = 1.0"),
    (b"weight: NonNegative", b"weight"),
    (b"*, weight", b"weight"),
    (b'    title="Quiet VAE",\n', b""),
    (b"higher_is_better=True", b"higher_is_better='x'"),
    (b"range=(0.0, 1.0)", b"range=(1.0,)"),
    (b'("permutation", "sign", "scale")', b'("nothing",)'),
    (b"codes: ArrayLike", b"nothing: ArrayLike"),
    (b"size: int = 16", b"size: int = 'x'"),
    (b"-> Dataset", b"-> 3"),
    (b"Args:", b"Args"),
    (b'"""', b"'''"),
)


@contextlib.contextmanager
def forgetting():
    """Forget the plug-ins that are loaded inside."""
    from untwine import plugins, registry

    before = [{name: kind[name] for name in kind} for kind in registry.REGISTRIES]
    modules, fresh_plugins = set(sys.modules), plugins.Plugins()
    with (
        mock.patch.dict(os.environ, {plugins.VARIABLE: ""}),
        mock.patch.object(plugins, "plugins", fresh_plugins),
        mock.patch.object(registry, "plugins", fresh_plugins),
    ):
        try:
            yield
        finally:
            for kind, entries in zip(registry.REGISTRIES, before, strict=True):
                kind._entries = entries
            for name in set(sys.modules) - modules:
                if name.startswith(plugins.PREFIX):
                    del sys.modules[name]


def plugin_door(place: Path, private: Path):
    """A plug-in that is broken or registers odd things: left out with a word, spoiling nothing."""
    from trials import Trial, mutate

    sources = [
        text.encode() for text in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    ]
    names = ("quiet-vae", "best-pair", "stripes", "vae")
    kinds = ("models", "metrics", "datasets")

    def trial(rng: random.Random) -> Trial:
        source = rng.choice(sources)
        for old, new in rng.sample(CHANGES_OF_SOURCE, 6):
            source = source.replace(old, new)
        if rng.random() < 0.4:
            source = mutate(source, rng.choice(sources), rng, text=True)
        if rng.random() < 0.15:
            source = rng.choice(ODD_SOURCES)
        path = place / f"plugin{rng.randrange(10**9)}.py"
        path.write_bytes(source)
        if rng.random() < 0.1:
            path = rng.choice((place, path / "x", Path("~nobody/x.py"), path.with_suffix("")))
        use = rng.choice(([rng.choice(kinds)], [rng.choice(kinds), "show", rng.choice(names)]))

        def work() -> object:
            with forgetting():
                return command("--plugin", str(path), *use)

        return Trial(f"{use} {source[:2000]!r}", work)

    return trial


def tracker_door(place: Path, private: Path):
    """Names of trackers, and a place of their files that is odd: a training ends all the same."""
    from trials import Trial

    prepare_private(private)

    def trial(rng: random.Random) -> Trial:
        out = place / "runs"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        tracker = rng.choice(("tensorboard", "tensorboard", "wandb", "mlflow", odd(rng)))
        events, kind = out / "tensorboard", rng.randrange(6)
        if kind == 0:
            events.symlink_to(private)
        elif kind == 1:
            events.symlink_to("/dev/zero")
        elif kind == 2:
            os.mkfifo(events)
        elif kind == 3:
            events.write_bytes(b"x")
        address = rng.choice([text for text in ODD[:40] if text.isprintable()])
        settings = {"MLFLOW_TRACKING_URI": address, "WANDB_MODE": "offline", "WANDB_DIR": str(out)}

        def work() -> object:
            with mock.patch.dict(os.environ, settings):
                return command(*TRAIN, "--out", str(out), "--track", tracker)

        return Trial(f"{tracker[:60]!r} {kind}", work)

    return trial


def search_door(place: Path, private: Path):
    """The file of a search (`untwine tune`), damaged or with other values."""
    from trials import Trial

    from untwine.tuning.database import database, list_trials

    question, good, names = {"run": "x", "seeds": 1}, place / "good.db", {"beta"}
    with database(good, question, names, maximise=True) as study:
        for number in range(3):
            trial = study.ask()
            trial.suggest_float("beta", 0.5, 20)
            trial.set_user_attr("runs", [f"run-{number}"])
            study.tell(trial, 0.5)
    tables = {
        **dict.fromkeys(("study_user_attributes", "trial_user_attributes"), "value_json"),
        "trial_values": "value",
        "trial_params": "distribution_json",
        "version_info": "schema_version",
        "trials": "state",
        "studies": "study_name",
    }

    def trial(rng: random.Random) -> Trial:
        file = place / f"tune{rng.randrange(10**9)}.db"
        if rng.random() < 0.5:
            file.write_bytes(damage(good.read_bytes(), rng))
            what = "damaged"
        else:
            shutil.copy(good, file)
            what, value = rng.choice(list(tables)), rng.choice(ODD[:60])
            value = rng.choice((value, json.dumps([value]), json.dumps({"run": value}), None))
            with contextlib.closing(sqlite3.connect(file)) as connection:
                with contextlib.suppress(sqlite3.Error, UnicodeEncodeError):
                    connection.execute(f"update {what} set {tables[what]} = ?", [value])
                connection.commit()

        def work() -> object:
            with database(file, question, names, maximise=True) as study:
                trials = list_trials(study)
            assert all(run and "/" not in run for one in trials for run in one.runs)
            return len(trials)

        return Trial(what, work)

    return trial


PAPER = """
title: A paper
by: Somebody, 2026
url: https://example.org
studies:
  digits:
    models: {beta-vae: {beta: [1, 4]}}
    data: [mnist or digits]
    seeds: 2
    training: {network: mlp, steps: 5, batch: 8, latent: 2}
    metrics: [mig, reconstruction]
    examples: 60
    scales: {smoke: {}, laptop: {seeds: 1}}
  shipped: {shipped: constrained-vaes}
items:
  table1:
    title: How much a weight matters
    studies: [digits]
    show:
      - table: {study: digits, columns: {MIG: mig}, rows: {VAE: {runs: beta-vae beta=1}}}
    claims:
      - says: The weight raises MIG
        rises: {study: digits, score: mig, of: beta-vae}
"""
PAPER_TOKENS = ("[]", "{}", "3", "null", "x", "[1, 2]", "{a: 1}", "''", "- 1", "true", "[[]]")


def paper_door(place: Path, private: Path):
    """A paper's YAML file: read, and its studies planned."""
    from trials import Trial, mutate

    from untwine.reproduce.items import find_items, prepare

    def trial(rng: random.Random) -> Trial:
        text = PAPER
        if rng.random() < 0.6:  # another value after a colon
            at = rng.choice([match.end() for match in re.finditer(": ?", text)])
            end = min(at + rng.choice((0, 5, 20, 80)), len(text))
            text = f"{text[:at]} {rng.choice(PAPER_TOKENS)}{text[end:]}"
        content = text.encode()
        if rng.random() < 0.6:
            content = mutate(content, content, rng, text=True)
        path = place / "paper.yaml"
        path.write_bytes(content)

        def work() -> object:
            items = find_items(str(path))
            return [list(prepare(one, "smoke", place / "out").folders) for one in items]

        return Trial(f"{content[:3000]!r}", work)

    return trial


def record_door(place: Path, private: Path):
    """Recorded tables of a paper: damaged, or changed and sealed again."""
    from trials import Trial

    from untwine.reproduce.items import plan_study, read_paper
    from untwine.reproduce.trial import read_records
    from untwine.tools.files import sha256

    words = prepare_private(private)
    (place / "paper.yaml").write_text(PAPER)
    paper, good = read_paper(str(place / "paper.yaml")), place / "good"
    good.mkdir()
    runs = plan_study(paper, "digits", "smoke", {}).runs
    header = "model,setting,value,data,seed,run,seconds,mig\n"
    rows = [f"beta-vae,beta-vae,1,digits,{r.seed},{r.directory},1.5,0.25\n" for r in runs]
    table = "".join([header, *rows]).encode()
    facts = {"study": "digits", "scale": "smoke", "commit": "", "fingerprints": {"settings": "x"}}
    facts |= {"stand_ins": {}, "metrics": ["mig"], "examples": 60, "seeds": [0, 1]}
    facts |= {"settings": [r.to_json() for r in runs if not r.seed], "incomplete": []}
    file, csv = good / "paper-digits-smoke.json", good / "paper-digits-smoke.csv"
    csv.write_bytes(table)
    seal(file, {**facts, "table": sha256(table)})

    def answer(folder: Path) -> str:
        (record,) = read_records(paper, "smoke", folder).values()
        hashes = [run.hash for run in record.study.runs]
        return repr((record.table.to_csv(), hashes, record.facts))

    expected = answer(good)

    def trial(rng: random.Random) -> Trial:
        folder = fresh(good, place / "records")
        name = rng.choice((file.name, csv.name))
        if rng.random() < 0.5:
            (folder / name).write_bytes(damage((folder / name).read_bytes(), rng))
            return Trial(f"damaged {name}", lambda: answer(folder), expected=expected)
        if name == csv.name:
            content = damage(table, rng)
            (folder / name).write_bytes(content)
            seal(folder / file.name, {**facts, "table": sha256(content)})
        else:
            seal(folder / name, change(read(folder / name), rng, words))
        return Trial(f"changed {name}", lambda: answer(folder))

    return trial


DOORS = {
    "plug-ins": plugin_door,
    "trackers": tracker_door,
    "searches": search_door,
    "papers": paper_door,
    "recorded tables": record_door,
}
