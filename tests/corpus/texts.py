"""Settings, options, names of metrics, uploads and requests: what people and browsers type."""

import contextlib
import io
import json
import random
import sys
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import numpy as np

ODD = (
    *("", " ", "0", "-1", "1", "3", "0.5", "1e9", "1e400", "-1e400", "nan", "inf", "-inf", "true"),
    *("1048576", "1048577", "2147483648", "9223372036854775807", "9" * 25, "9" * 5000, "1e-400"),
    *(
        "[",
        "[" * 3000,
        "1,2,3",
        "[1]",
        "{}",
        "null",
        "None",
        "x",
        "x" * 5000,
        "\x1b[31m",
        "é",
        "\ud800",
    ),
    *("../../x", "/etc/passwd", "/dev/zero", "http://127.0.0.1:9/x", "vae", "conv", "mlp(width=3)"),
    *("sprites(size=16)", "held-out(of=sprites(size=16))", "mixed(first=x, second=(", "all", ","),
    *("[/red]", "[link=http://x]y[/link]", "\x1b]0;x\x07", "~nobody/x", "~", "\udcff", "\u202e"),
    *("mig", "sap[svm]", "mig(bins=3)", "mig[", "mig(bins=", "=", "a=b", "0x10", "1_000", "١"),
)
MODEL_BYTES = 6 * 2**30  # the largest model, its gradients, the optimiser's copies and one passing
TRAIN = ["train", "vae", "digits", "--network", "mlp(width=4)", "--steps", "1", "--batch"]
TRAIN += ["4", "--latent", "2", "--threads", "1", "--quiet", "--device", "cpu"]


def command(*words: str) -> tuple[int, str]:
    """The exit code and output of a command, run in this process; messages go to stderr."""
    from untwine.cli.main import main

    output, code = io.StringIO(), 0
    with mock.patch.object(sys, "argv", ["untwine", *words]), contextlib.redirect_stdout(output):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    if code:
        raise SystemExit(code)
    return code, output.getvalue()


def odd(rng: random.Random) -> str:
    """A value that is odd, a mutation of one, or a plain number."""
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(ODD)
    if kind < 0.8:
        return str(rng.choice((rng.randint(-3, 40), 2 ** rng.randint(0, 70), rng.random())))
    return "".join(rng.choice(ODD)[: rng.randint(0, 9)] for _ in range(rng.randint(1, 4)))


def value_for(parameter, rng: random.Random) -> str:
    """A value of the parameter's type, also at the ends of its range, or an odd one."""
    bounds = parameter.range
    if rng.random() < 0.4 or parameter.type not in (int, float):
        return odd(rng)
    ends = [bounds.least, bounds.most, bounds.most + 1] if bounds else [0, 1]
    number = rng.choice((*ends, 2 ** rng.randint(0, 21), rng.randint(1, 300), rng.random()))
    return f"{number:g}" if parameter.type is float else str(number).removesuffix(".0")


def settings_door(place: Path, private: Path):
    """`untwine train --set NAME=VALUE` for the parameters of all models and networks."""
    from trials import Trial

    from untwine.registry import likelihoods, models, networks

    def trial(rng):
        model, network = rng.choice(list(models)), rng.choice(list(networks))
        words = ["train", model, "digits", "--network", network, *TRAIN[5:]]
        likelihood = rng.choice([*likelihoods, None])
        words += ["--likelihood", likelihood] if likelihood else []
        entries = [
            models[model],
            networks[network],
            *([likelihoods[likelihood]] if likelihood else []),
        ]
        every = [(e.name, p) for e in entries for p in e.parameters.values()]
        for owner, p in rng.sample(every, min(len(every), rng.randint(1, 2))):
            words += ["--set", f"{owner}.{p.name.replace('_', '-')}={value_for(p, rng)}"]
        words += ["--out", str(place / "runs" / str(rng.random()))]
        return Trial(repr(words)[:600], lambda: command(*words), MODEL_BYTES)

    return trial


def options_door(place: Path, private: Path):
    """One odd value for an option or argument of a command."""
    from trials import Trial

    rng = np.random.default_rng(0)
    np.save(place / "codes.npy", rng.normal(size=(60, 3)))
    np.save(place / "factors.npy", rng.integers(0, 3, (60, 2)))
    (place / "study.yaml").write_text("study: s\nmodels: vae\ndata: digits\nseeds: 1\n")
    runs = place / "trained"
    command(*TRAIN, "--out", str(runs))
    score = ["score", str(place / "codes.npy"), str(place / "factors.npy"), "--quiet"]
    model = str(next(runs.iterdir()))
    evaluate = ["evaluate", model, "--quiet", "--metrics", "hoyer", "--examples", "40"]
    training = "latent steps epochs batch lr seed validation patience optimiser weight-decay clip"
    training += " schedule warm-up network likelihood threads compile checkpoint-every device track"
    commands = [
        (TRAIN, training.split()),
        ([*score, "--metrics", "mig", "--seeds", "2"], ["seeds", "examples", "metrics", "set"]),
        (score[:2], ["test-codes", "other-codes"]),
        (evaluate, ["examples", "seed", "split", "set", "data", "device"]),
        (["encode", model, "--quiet", "--draws", "1"], ["draws", "seed", "out", "runs"]),
        (["outliers", model, "--quiet", "--draws", "1"], ["count", "draws", "seed"]),
        (["sample", model], ["count", "seed"]),
        (["reconstruct", model], ["count"]),
        (["data", "preview", "digits", "--out", "x.png"], ["set"]),
        (["study", "plan", str(place / "study.yaml"), "--no-estimate"], ["workers", "scale"]),
        (["study", "run", "none.yaml"], ["workers", "threads", "retries", "storage", "gpus"]),
        (["models", "show"], [""]),
        (["datasets", "show"], [""]),
        (["runs"], ["out"]),
        (["check"], [""]),
    ]

    def trial(rng):
        start, names = rng.choice(commands)
        option = rng.choice(names)
        value = odd(rng) if rng.random() < 0.6 else str(2 ** rng.randint(0, 40))
        if option in ("steps", "epochs") and len(value) < 14 and value.isdigit():
            value = value[-1]  # a long training is no hang
        words = [*start, *([f"--{option}={value}"] if option else [value])]
        if start[0] in ("encode", "sample", "reconstruct") and option != "out":
            words += ["--out", str(place / "x.npy")]
        if start == TRAIN:
            words += ["--out", str(place / "runs" / str(rng.random()))]
        return Trial(repr(words)[:600], lambda: inside(place, words), MODEL_BYTES)

    return trial


def inside(place: Path, words: list[str]):
    """A command in this directory, where relative paths are written to."""
    with contextlib.chdir(place):
        return command(*words)


def metrics_door(place: Path, private: Path):
    """Names of metrics, their variants and settings."""
    from trials import Trial

    from untwine.registry import metrics

    generator = np.random.default_rng(0)
    np.save(place / "codes.npy", generator.normal(size=(60, 3)))
    np.save(place / "factors.npy", generator.integers(0, 3, (60, 2)))
    start = [
        "score",
        str(place / "codes.npy"),
        str(place / "factors.npy"),
        "--quiet",
        "--seeds",
        "1",
    ]
    quick = [name for name in metrics if not metrics[name].metadata.get("slow")]

    def trial(rng):
        name = rng.choice(quick)
        parameters = list(metrics[name].parameters) or ["x"]
        setting = f"{rng.choice(parameters)}={odd(rng)}"
        text = rng.choice(
            (f"{name}({setting})", f"{name}[{odd(rng)}]", f"{name},{odd(rng)}", odd(rng))
        )
        words = [*start, "--metrics", text]
        if rng.random() < 0.3:
            words = [*start, "--metrics", name, "--set", setting.replace("_", "-")]
        return Trial(repr(words[6:])[:600], lambda: command(*words))

    return trial


def explorer(place: Path):
    """A client of the explorer of a run and a study, with its token."""
    from starlette.testclient import TestClient

    from untwine.explore.gallery import Gallery
    from untwine.explore.server import application

    command(*TRAIN, "--out", str(place / "trained"))
    (run,) = (place / "trained").iterdir()
    from folders import make_study

    study = make_study(place / "studies")
    app = application(Gallery.find([str(run), str(study)], place), token="secret")
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=True)
    return client, f"/api/runs/{run.name}", app


def answered(response, *statuses: int):
    """The status and beginning of an answer, which must be whole and of the kind it says."""
    assert response.status_code < 500, f"{response.status_code} {response.text[:500]}"
    if response.status_code >= 400:
        detail = response.json()["detail"]
        raise SystemExit(f"{response.status_code} {detail}")
    return response.status_code


def upload_door(place: Path, private: Path):
    """Mutated pictures, sent to the explorer."""
    import runpy

    from trials import ALLOWANCE, HERE, Trial, mutate

    made = runpy.run_path(str(HERE / "make.py"))
    files = [c for kind in ("VALID", "CASES") for c in made[kind]["picture"].values()]
    client, base, _ = explorer(place)
    client.headers["authorization"] = "Bearer secret"

    def trial(rng):
        content = mutate(rng.choice(files), rng.choice(files), rng)
        size = ALLOWANCE + 1.5 * len(content)
        return Trial(
            f"{content[:40]!r}",
            lambda: answered(client.post(f"{base}/start", content=content)),
            size,
        )

    return trial


def request_door(place: Path, private: Path):
    """Addresses, parameters and headers; without the token or from elsewhere all is refused."""
    from trials import Trial

    client, base, app = explorer(place)
    paths = app.openapi()["paths"]
    names = {
        p["name"]
        for path in paths.values()
        for how in path.values()
        for p in how.get("parameters", [])
    }
    names = sorted(names - {"run", "name"})

    def trial(rng):
        path = rng.choice(["/", *paths])
        if rng.random() < 0.9:
            path = path.replace("/api/runs/{run}", base)
        while "{" in path:
            start, _, rest = path.partition("{")
            path = start + quote(odd(rng), safe="", errors="replace") + rest.partition("}")[2]
        query = {
            rng.choice(names): odd(rng).encode(errors="replace").decode()
            for _ in range(rng.randint(0, 3))
        }
        headers = {"authorization": "Bearer secret"}
        strange = rng.random() < 0.5
        if strange:
            headers |= rng.choice(STRANGE_HEADERS)
        method = rng.choice(("GET", "GET", "POST"))
        body = json.dumps({rng.choice(names): odd(rng)}).encode() if method == "POST" else None

        def work():
            response = client.request(method, path, params=query, headers=headers, content=body)
            if strange:
                assert response.status_code in (400, 401, 403, 404, 405), response.status_code
            return answered(response)

        return Trial(f"{method} {path[:200]} {query!r:.300} {headers}", work)

    return trial


STRANGE_HEADERS = (
    {"authorization": ""},
    {"authorization": "Bearer secre"},
    {"authorization": "Basic secret"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    {"host": "evil.example"},
    {"host": ""},
)
DOORS = {
    "--set": settings_door,
    "options": options_door,
    "--metrics": metrics_door,
    "uploads": upload_door,
    "requests": request_door,
}
