"""Ways to damage a file, and to change one and seal it again as its author could."""

import contextlib
import json
import os
import random
import shutil
import struct
from pathlib import Path

from texts import ODD


def damage(content: bytes, rng: random.Random) -> bytes:
    """A changed bit or byte, another digit, a cut, a repeat or zeros, once or twice."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        digits = [i for i in range(at, min(at + 200, len(data))) if 48 <= data[i] < 58]
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2 and digits:
            data[digits[0]] = rng.choice(b"0123456789")
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 10, 10**6))]
        elif kind == 4:
            data[at:at] = data[at : at + 20]
        else:
            data[at : at + 16] = bytes(len(data[at : at + 16]))
        if not data:
            break
    return bytes(data)


def places_of(value, path=()):
    """The paths to all values inside JSON."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places_of(item, (*path, key))


def change(content, rng: random.Random, words: tuple):
    """JSON with one to three values replaced, removed, added or moved."""
    for _ in range(rng.randint(1, 3)):
        paths = [path for path in places_of(content) if path]
        if not paths:
            return content
        *way, last = rng.choice(paths)
        inner = content
        for key in way:
            inner = inner[key]
        kind = rng.random()
        if kind < 0.15:
            inner.pop(last)
        elif kind < 0.3 and isinstance(inner, dict):
            inner[rng.choice(words) if isinstance(words, tuple) else "x"] = strange(rng, words)
        elif kind < 0.4:
            other = content
            for key in rng.choice(paths):
                other = other[key]
            inner[last] = json.loads(json.dumps(other))
        else:
            inner[last] = strange(rng, words)
    return content


def strange(rng: random.Random, words: tuple):
    """A JSON value that does not belong there."""
    deep = []
    for _ in range(rng.choice((3, 30))):
        deep = [deep]
    return rng.choice(
        (
            *(None, True, 0, -1, 1, 2**31, 2**63, 10**19, 1e308, -1e308, 1e-320, 0.5, deep, {}, []),
            *(
                [0] * 200,
                {"name": "vae"},
                {"name": "x", "path": rng.choice(words)},
                ["a"],
                {"a": {}},
            ),
            *(rng.choice(ODD[:60]), rng.choice(ODD), rng.choice(words), rng.choice(words)),
            *("[/red] [link=http://x]y[/link]", "\x1b]0;x\x07", "‮", "=1+1", "a" * 300),
        )
    )


def change_weights(content: bytes, rng: random.Random) -> bytes:
    """Weights of other numbers, names, types or shapes."""
    import numpy as np
    from safetensors.numpy import load, save

    tensors = {name: np.array(value) for name, value in load(content).items()}
    name = rng.choice(list(tensors))
    value, kind = tensors[name], rng.randrange(7)
    if kind == 0:
        value.reshape(-1)[: rng.choice((1, 10**6))] = rng.choice((np.nan, np.inf, 1e38, -1e38))
    elif kind == 1:
        for each in tensors.values():
            each *= rng.choice((1e30, 1e38, 0, -1))
    elif kind == 2:
        del tensors[name]
    elif kind == 3:
        tensors[f"{name}.x"] = value
    elif kind == 4:
        tensors[name] = value.astype(rng.choice(("float64", "float16", "int8")))
    elif kind == 5:
        tensors[name] = value.reshape(1, *value.shape)
    else:
        header = bytearray(content)
        at = rng.randrange(8, 8 + struct.unpack("<Q", content[:8])[0])
        header[at : at + rng.randint(1, 3)] = rng.choice((b"9", b"]", b'"', b"-1", b"1e9"))
        return bytes(header)
    return save(tensors)


def change_codes(run: Path, rng: random.Random) -> None:
    """Stored codes of other numbers or shapes, sealed."""
    import numpy as np

    from untwine.study.stored_codes import read_codes, write_codes

    arrays = {name: np.array(values) for name, values in (read_codes(run) or {}).items()}
    name, kind = rng.choice(("codes", "kl")), rng.randrange(5)
    if kind == 0:
        arrays[name][: rng.choice((1, 10**6))] = rng.choice((np.nan, np.inf, -1e38, 3e38))
    elif kind == 1:
        arrays[name] = arrays[name][: rng.choice((0, 1, 7))]
    elif kind == 2:
        arrays[name] = arrays[name][..., : rng.choice((0, 1))]
    elif kind == 3:
        arrays[name] = arrays[name].reshape(-1)
    else:
        arrays[name][:] = 0
    write_codes(run, arrays)


def seal(path: Path, content: dict) -> None:
    from untwine.tools.sealed import write_json

    with contextlib.suppress(ValueError, UnicodeEncodeError):
        write_json(path, content)


def read(path: Path) -> dict:
    content = json.loads(path.read_bytes())
    return {key: value for key, value in content.items() if key not in ("seal", "format")}


def bind(run: Path) -> None:
    """Make the seals and checksums of a run fit each other, as someone who wrote it would."""
    from untwine.errors import UntwineError
    from untwine.runs.directory import parse_spec
    from untwine.tools.files import sha256

    with contextlib.suppress(UntwineError, KeyError, TypeError, AttributeError, ValueError):
        done, scores = read(run / "done.json"), read(run / "scores.json")
        done |= {
            "weights": sha256((run / "model.safetensors").read_bytes()),
            "history": sha256((run / "history.csv").read_bytes()),
        }
        with contextlib.suppress(UntwineError, KeyError, TypeError):
            done["hash"] = parse_spec(read(run / "run.json")).hash
        seal(run / "done.json", done)
        seal(run / "scores.json", scores | {"weights": done["weights"]})


def fresh(good: Path, copy: Path) -> Path:
    """A copy of a folder in which files can be changed."""
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(good, copy, symlinks=True))


def files_of(folder: Path) -> list[Path]:
    hidden = (".lock", ".owner")
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in hidden)


def prepare_private(private: Path) -> tuple[str, ...]:
    """Files that nobody named, and words that lead to them or to the network."""
    import numpy as np
    from PIL import Image

    (private / "photos").mkdir()
    Image.new("RGB", (16, 16), "red").save(private / "photos" / "x.png")
    np.save(private / "x.npy", np.zeros((60, 16, 16), np.uint8))
    (private / "x.csv").write_text("a,b\n1,2\n3,4\n")
    names = ("photos", "x.npy", "x.csv")
    words = tuple(str(private / name) for name in names)
    expressions = (f"array(path={private}/x.npy)", f"held-out(of=array(path={private}/x.npy))")
    other = ("path", "digest", "data", "name", "http://127.0.0.1:9/x", "mnist", "..", "")
    return (*words, *expressions, *other)


def make_odd(path: Path, private: Path, rng: random.Random) -> str:
    """Replace a file of a run by what is none: a link, a pipe, a folder, a file full of holes."""
    names = ("run.json", "done.json", "scores.json", "model.safetensors", "history.csv")
    names += (".lock", ".owner", ".mark", "report.html", "failed.json", "states", "page")
    file, kind = path / rng.choice(names), rng.randrange(5)
    file.unlink(missing_ok=True)
    if kind == 0:
        file.symlink_to(private / "x.csv")
    elif kind == 1:
        file.symlink_to("/dev/zero")
    elif kind == 2:
        os.mkfifo(file)
    elif kind == 3:
        file.mkdir()
    else:
        with file.open("wb") as stream:
            stream.truncate(1 << 36)
    return f"{file.name} of kind {kind}"
