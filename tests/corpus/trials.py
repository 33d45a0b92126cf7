"""Inputs of every door: each is made from random numbers, and says how much memory it may take."""

import random
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ALLOWANCE = 2**28  # bytes that any input may take
MAX_SEED_FILE = 2**19  # larger files of the corpus take long to mutate
TEXT = (".yaml", ".csv", ".tsv")
TOKENS = (
    *(b"vae", b"[", b"]", b"{", b": ", b"- ", b"&a ", b"*a", b"<<: ", b"null", b"1", b"0.5", b"\n"),
    *(b",", b"'", b'"', b"~", b"models", b"seeds", b"scales", b"!!int ", b"2001-01-01", b"x" * 300),
)
NUMBERS = (b"0", b"-1", b"9" * 19, b"9" * 400, b"1e400", b"nan", b"2147483648", b"True")


@dataclass
class Trial:
    """One input of a door."""

    what: str  # for messages
    work: Callable[[], object]  # the answer, or an error
    max_bytes: float = ALLOWANCE  # of memory
    expected: object = None  # the answer to what was damaged: any other needs a word
    is_told: Callable[[object], bool] = lambda answer: False  # whether the answer itself says so


Door = Callable[[random.Random], Trial]


def mutate(content: bytes, other: bytes, rng: random.Random, text: bool = False) -> bytes:
    """One to four changes: bits, bytes, numbers, cuts, repeats and pieces of another file."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.choice((2, 3, 4, 5, 7, 7, 7)) if text else rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind == 2:
            del data[at : at + rng.randint(1, 16)]
        elif kind == 3:
            data[at:at] = data[at : at + 32] * rng.randint(1, 8)
        elif kind == 4:
            data[at : at + rng.randint(0, 4)] = rng.choice(NUMBERS)
        elif kind == 5:
            start = rng.randrange(len(other) + 1)
            data[at : at + 8] = other[start : start + rng.randint(1, 64)]
        elif kind == 7:
            data[at : at + rng.randint(0, 4)] = rng.choice(TOKENS)
        else:
            data[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"))
    return bytes(data)


def file_door(name: str) -> Callable[[Path, Path], Door]:
    """Mutations of the good and bad files of a door of `doors.py`."""

    def open_door(place: Path, private: Path) -> Door:
        made = runpy.run_path(str(HERE / "make.py"))
        read = runpy.run_path(str(HERE / "doors.py"))["DOORS"][name]
        good = list(made["VALID"][name].items())
        every = [*good, *made["CASES"][name].items()]
        files = [pair for pair in every if len(pair[1]) <= MAX_SEED_FILE]
        for file, content in good:
            (place / f"good-{file}").write_bytes(content)

        def trial(rng: random.Random) -> Trial:
            file, content = rng.choice(files)
            if rng.random() < 0.5:
                file, content = rng.choice([pair for pair in good if pair in files])
            other = rng.choice(files)[1]
            path = place / file
            path.unlink(missing_ok=True)
            path.write_bytes(mutate(content, other, rng, file.endswith(TEXT)))
            return Trial(file, lambda: read(path), ALLOWANCE + 1.5 * path.stat().st_size)

        return trial

    return open_door


def other_doors() -> dict[str, Callable[[Path, Path], Door]]:
    import folders
    import others
    import texts
    import trees

    return {**texts.DOORS, **folders.DOORS, **trees.DOORS, **others.DOORS}


FILE_DOORS = (
    *("array", "score", "picture", "idx", "study", "table", "hdf5", "matlab", "tar of MATLAB"),
    *("zip", "tar", "dsprites", "smallnorb", "data table", "stored data"),
)
DOORS = {**{name: file_door(name) for name in FILE_DOORS}, **other_doors()}
