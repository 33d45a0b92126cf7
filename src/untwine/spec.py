"""Names and numbers: how a run is written down, and how it becomes a model and its data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from untwine import schema
from untwine.data import Dataset
from untwine.errors import (
    DataError,
    IncompatibleError,
    ParameterError,
    UnknownNameError,
    UntwineError,
)
from untwine.parts.nets import default_for
from untwine.records import Sizes
from untwine.registry import WRITTEN, Choice, Entry, datasets, likelihoods, models, networks
from untwine.schema import Parameter, Value, written
from untwine.vae import VAE, Recipe, forked

FILES = ("path", "painting")  # parameters of datasets that name files
BOUNDS = {
    "latent": (1, 10_000),
    "batch": (1, 10**9),
    "steps": (1, 10**12),
    "seed": (0, 2**63 - 1),
}


@dataclass(frozen=True)
class Run:
    """Everything that determines a trained model; survives JSON, and its hash names it."""

    model: tuple[Choice, ...]
    data: Choice
    network: Choice
    likelihood: Choice
    latent: int = 10
    batch: int = 64
    steps: int = 10_000
    lr: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        parts = sorted(self.model, key=lambda part: part.name)  # a+b is b+a
        pieces = {
            "model": tuple(models.choose(part.name, **part.params) for part in parts),
            "data": datasets.choose(self.data.name, **self.data.params),
            "network": networks.choose(self.network.name, **self.network.params),
            "likelihood": likelihoods.choose(self.likelihood.name, **self.likelihood.params),
            "lr": _rate(self.lr),
        }
        for name, value in pieces.items():
            object.__setattr__(self, name, value)
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ParameterError(
                    f"{name} must be a whole number from {least} to {most}, not {value!r}"
                )
        if not 0 < self.lr < float("inf"):
            raise ParameterError(f"lr must be a number above 0, not {self.lr}")

    @property
    def model_name(self) -> str:
        return "+".join(part.name for part in self.model)

    @property
    def hash(self) -> str:
        """Twelve characters that stand for the whole specification.

        Numbers at their defaults are left out, so that a new parameter does not rename old runs.
        Data with a digest counts by its content, wherever it lies.
        """
        data = datasets.shortened(self.data)
        if data.get("digest"):
            data.pop("path", None)
        content = {
            **asdict(self),
            "model": [models.shortened(part) for part in self.model],
            "data": data,
            "network": networks.shortened(self.network),
            "likelihood": likelihoods.shortened(self.likelihood),
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def directory(self) -> str:
        """What the run's directory is called."""
        return f"{self.model_name}-{self.data.name}-{self.hash}"

    def to_json(self) -> dict[str, Any]:
        choices = {
            "model": [part.to_json() for part in self.model],
            "data": self.data.to_json(),
            "network": self.network.to_json(),
            "likelihood": self.likelihood.to_json(),
        }
        return {**asdict(self), **choices}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        known = {f.name for f in fields(cls)}
        for key in data:
            if key not in known:
                raise UnknownNameError(schema.unknown("entry of a run", key, sorted(known)))
        choices = {
            "model": tuple(models.from_json(part) for part in data["model"]),
            "data": datasets.from_json(data["data"]),
            "network": networks.from_json(data["network"]),
            "likelihood": likelihoods.from_json(data["likelihood"]),
        }
        return cls(**{**data, **choices})


def _rate(lr: Any) -> float:
    try:
        return float(lr)
    except (TypeError, ValueError):
        raise ParameterError(f"lr must be a number above 0, not {lr!r}") from None


class Settings:
    """What a person sets: `beta=6`, or `beta-vae.beta=6` where more than one piece has a `beta`."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = {key.replace("_", "-"): value for key, value in values.items()}

    @classmethod
    def read(cls, lines: Iterable[str]) -> Settings:
        """Settings from `NAME=VALUE` lines, as on a command line."""
        values: dict[str, object] = {}
        for line in lines:
            key, equals, text = line.partition("=")
            if not equals or not key.strip():
                raise ParameterError(f"a setting is NAME=VALUE, for example beta=6, not {line!r}")
            if key.strip() in values:
                raise ParameterError(f"{key.strip()} is set twice; set it once")
            values[key.strip()] = text.strip()
        return cls(values)

    def of(self, entry: Entry) -> dict[str, Value]:
        """The parameters of one piece that are set here."""
        found: dict[str, Value] = {}
        for p in entry.parameters.values():
            keys = [key for key in _keys(entry, p) if key in self.values]
            if len(keys) > 1:
                raise ParameterError(f"{' and '.join(keys)} are the same setting; set it once")
            for key in keys:
                value = self.values[key]
                try:
                    found[p.name] = p.parse(value) if isinstance(value, str) else p.check(value)
                except ParameterError as error:
                    raise ParameterError(f"{entry.name}.{error}") from None
        return found

    def check(self, entries: Iterable[Entry]) -> None:
        """Refuse a setting that no piece has, or that more than one piece has."""
        owners: dict[str, list[str]] = {}
        for entry in entries:
            for p in entry.parameters.values():
                for key in _keys(entry, p):
                    owners.setdefault(key, []).append(f"{entry.name}.{p.name}")
        for key in self.values:
            if key not in owners:
                raise UnknownNameError(schema.unknown("setting", key, owners))
            if len(owners[key]) > 1:
                raise ParameterError(f"{key} could be {' or '.join(owners[key])}; write which")


def _keys(entry: Entry, p: Parameter) -> tuple[str, str]:
    """How a parameter may be called: by its own name, and with its owner's in front."""
    bare = p.name.replace("_", "-")
    return bare, f"{entry.name}.{bare}"


@dataclass(frozen=True)
class Design:
    """The names and numbers of a model."""

    model: tuple[Choice, ...]
    network: Choice
    likelihood: Choice


def design(
    model: str,
    data: Dataset,
    asked: Settings,
    *,
    network: str | None = None,
    likelihood: str | None = None,
    others: Iterable[Entry] = (),
) -> Design:
    """A model from what a person types; the data decides where no network or likelihood is named.

    `others` are further entries to which a setting may belong.
    """
    parts = [models[name] for name in model_names(model)]
    net = networks[network or default_for(data.shape)]
    like = likelihoods[likelihood or data.likelihood.name]
    asked.check([*parts, net, like, *others])
    if like.facts.get("bounded") and not data.bounded:
        raise IncompatibleError(
            f"the likelihood {like.name} needs data in [0, 1], which this is not; choose gaussian"
        )
    declared = {k: v for k, v in data.likelihood.params.items() if k in like.parameters}
    return Design(
        model=tuple(models.choose(part.name, **asked.of(part)) for part in parts),
        network=networks.choose(net.name, **asked.of(net)),
        likelihood=likelihoods.choose(like.name, **{**declared, **asked.of(like)}),
    )


def plan(
    model: str,
    data: str,
    *,
    network: str | None = None,
    likelihood: str | None = None,
    settings: Iterable[str] = (),
    **numbers: Any,
) -> Run:
    """A run from what a person types: names, and settings such as `beta=6` or `sprites.size=32`.

    >>> run = plan("beta-vae", "sprites", settings=["beta=6", "size=32"], steps=500)
    >>> run.model_name, dict(run.data.params), run.network.name, run.steps
    ('beta-vae', {'size': 32}, 'conv', 500)
    """
    asked = Settings.read(settings)
    model_names(model)  # a misspelt model is told before any data is read
    source, place = locate(data)
    given = asked.of(source)
    for twice in place.keys() & given.keys():
        raise ParameterError(f"{twice} is set by {data} already; do not set it again")
    chosen = datasets.choose(source.name, **{**place, **_absolute(source, given)})
    loaded = load(chosen)
    pieces = design(model, loaded, asked, network=network, likelihood=likelihood, others=[source])
    digest = {"digest": loaded.digest} if loaded.digest else {}
    return Run(
        model=pieces.model,
        data=datasets.choose(chosen.name, **{**chosen.params, **digest}),
        network=pieces.network,
        likelihood=pieces.likelihood,
        **numbers,
    )


def _absolute(entry: Entry, params: Mapping[str, Value]) -> dict[str, Value]:
    """The same with paths that mean the same from any directory."""
    files = {key: value for key in FILES if (value := params.get(key))}
    inner = {key: value for key in entry.expressions if (value := params.get(key))}
    return {
        **params,
        **{key: str(Path(str(value)).expanduser().resolve()) for key, value in files.items()},
        **{key: _rooted(str(value)) for key, value in inner.items()},
    }


def _rooted(expression: str) -> str:
    """An expression whose paths mean the same from any directory."""
    try:
        entry, given = locate(expression)
    except UntwineError:  # told when it is opened
        return expression
    return str(Choice(entry.name, {key: written(value) for key, value in given.items()}))


def model_names(text: str) -> list[str]:
    """The names in `jigsaw+beta-tcvae`, each once."""
    names = [models[name.strip()].name for name in text.split("+")]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is named twice in {text!r}; name it once")
    return names


def locate(data: str) -> tuple[Entry, dict[str, Value]]:
    """The dataset that a text names, or the one that reads this path, with what the text sets."""
    data = data.strip()
    if data.replace("_", "-") in datasets:  # a folder of that name is ./NAME
        return datasets[data], {}
    path = Path(data).expanduser()
    match = WRITTEN.fullmatch(data)
    if match and match["given"] is not None and not path.exists():
        entry, given = datasets.parse(data)
        return entry, _absolute(entry, given)
    if path.is_dir():
        return datasets["folder"], {"path": str(path.resolve())}
    if path.suffix.lower() in {".npy", ".npz"}:
        return datasets["array"], {"path": str(path.resolve())}
    if path.exists() or path.name != data:
        raise DataError(f"{data} is not a dataset, a folder of images, or an .npy or .npz file")
    return datasets[data], {}


_LOADED: dict[str, Dataset] = {}  # the last few, newest last


def load(choice: Choice) -> Dataset:
    """The data behind a choice; the last few are kept, those from files by their digest."""
    known = json.dumps(choice.to_json())
    data = _LOADED.pop(known, None)
    if data is None:
        data = datasets.make(choice)
        if data.digest:
            known = json.dumps({**choice.to_json(), "digest": data.digest})
    _LOADED[known] = data
    while len(_LOADED) > 4:
        _LOADED.pop(next(iter(_LOADED)))
    return data


def compose(parts: Sequence[Choice]) -> Recipe:
    """The recipes of all parts merged, or a sentence that names those that clash."""
    total, names = Recipe(), ""
    for part in parts:
        try:
            total = total | models.make(part)
        except IncompatibleError as error:
            raise IncompatibleError(f"{names} and {part.name} do not combine: {error}") from None
        names = f"{names}+{part.name}".lstrip("+")
    return total


def assemble(pieces: Design | Run, data: Dataset, *, latent: int, seed: int, batch: int = 4) -> VAE:
    """The model of a design for this data, with weights that depend on the seed alone."""
    sizes = Sizes(data.shape, latent=latent, n_train=len(data), examples=data.some(seed))
    network, likelihood = networks.make(pieces.network), likelihoods.make(pieces.likelihood)
    recipe = compose(pieces.model)
    with forked(seed):
        try:
            return recipe.build(sizes, network, likelihood, batch=batch)
        except IncompatibleError as error:
            name = "+".join(part.name for part in pieces.model)
            raise IncompatibleError(f"{name} cannot be built: {error}") from None


def build(
    model: str,
    data: Dataset,
    *,
    latent: int = 10,
    network: str | None = None,
    likelihood: str | None = None,
    seed: int = 0,
    **settings: Value,
) -> VAE:
    """A model for this data, with fresh weights.

    Args:
        model: one name or several, as in `"jigsaw+beta-tcvae"`.
        data: what it will be trained on; gives shape, likelihood and number of examples.
        latent: number of latents.
        network: encoder and decoder; `conv` for images and `mlp` for vectors by default.
        likelihood: of the data; what the dataset declares by default.
        seed: of the initial weights.
        settings: parameters of the pieces named above, by their own names.

    >>> import untwine
    >>> model = untwine.build("beta-vae", untwine.dataset("sprites", size=16), beta=6)
    >>> tuple(model.sample(3).shape)
    (3, 1, 16, 16)
    """
    pieces = design(model, data, Settings(settings), network=network, likelihood=likelihood)
    return assemble(pieces, data, latent=latent, seed=seed)


def dataset(name: str, /, **params: Value) -> Dataset:
    """The dataset of this name, or a folder or file of your own.

    >>> import untwine
    >>> len(untwine.dataset("sprites", size=32))
    737280
    >>> untwine.dataset("sprites(size=32)").shape
    torch.Size([1, 32, 32])
    """
    source, place = locate(name)
    return load(datasets.choose(source.name, **{**place, **_absolute(source, params)}))
