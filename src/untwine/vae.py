"""A VAE is six slots; a paper is the set of slots it changes."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from untwine.data.conversion import as_dataset, example_chunks
from untwine.data.dataset import Dataset
from untwine.data.opening import open_as
from untwine.distributions import Mixture
from untwine.errors import (
    DataError,
    IncompatibleError,
    MissingLibraryError,
    ParameterError,
    RunError,
)
from untwine.parts.defaults import (
    GaussianPosterior,
    IdentityMapping,
    NoCorruption,
    SingleLatent,
    StandardNormal,
    View,
)
from untwine.parts.labels import (
    Condition,
    Given,
    MissingLabels,
    chosen_levels,
    levels_in_turn,
    levels_of,
)
from untwine.parts.schedules import Weight, scale
from untwine.parts.terms import KL, NegLogLikelihood
from untwine.records import (
    ACTIVE_NATS,
    Batch,
    Columns,
    Inference,
    Labels,
    Likelihood,
    ModelCard,
    Network,
    Sampler,
    Sizes,
    Trace,
)
from untwine.registry import models
from untwine.slots import AdversarialTerm, Corruption, Latents, Posterior, Prior, Term
from untwine.slots import Mapping as MappingSlot
from untwine.tools.compute import eval_mode, seeded
from untwine.tools.files import sha256, write_bytes
from untwine.tools.notebook import card_html
from untwine.tools.sealed import write_json
from untwine.tools.weights import pack_weights

Terms = Mapping[str, tuple[Weight, Callable[[Sizes], Term]]]
ELBO: Terms = {"nll": (1.0, NegLogLikelihood), "kl": (1.0, KL)}


class Objective(nn.Module):
    """A weighted sum of named terms, averaged over the batch, to minimise."""

    def __init__(self, terms: Mapping[str, tuple[Weight, Term]]) -> None:
        super().__init__()
        self.weights = {name: weight for name, (weight, _) in terms.items()}
        self.terms = nn.ModuleDict({name: term for name, (_, term) in terms.items()})

    def forward(self, trace: Trace) -> dict[str, Tensor]:
        """The value of each term under its name, and their weighted sum under `loss`."""
        values = {name: term(trace).mean() for name, term in self.terms.items()}
        step = trace.batch.step
        weighted = [
            (weight(step) if callable(weight) else weight) * values[name]
            for name, weight in self.weights.items()
        ]
        return {"loss": torch.stack(weighted).sum(), **values}

    def without_constants(self, row: Mapping[str, float]) -> dict[str, float]:
        """A row of the history without the constants that the estimators of terms add."""
        terms = dict(self.terms.items())
        shown = dict(row)
        for name in row:
            term = terms.get(name.removeprefix("validation_"))
            if isinstance(term, Term):
                shown[name] -= term.constant
        return shown

    def adversaries(self) -> list[AdversarialTerm]:
        return [term for term in self.terms.values() if isinstance(term, AdversarialTerm)]


class VAE(nn.Module):
    """A variational autoencoder: x → corruption → encoder → latents → mapping → decoder → p(x|w).

    Built by `untwine.build`. In `encode`, `decode` and the other methods below images are
    (B, C, H, W) floats in [0, 1]; the model is put in evaluation mode for their duration.
    """

    def __init__(
        self,
        *,
        sizes: Sizes,
        corruption: Corruption,
        encoder: nn.Module,
        latents: Latents,
        mapping: MappingSlot,
        decoder: nn.Module,
        likelihood: Likelihood,
        objective: Objective,
        draws: int = 1,
    ) -> None:
        super().__init__()
        self.sizes, self.draws = sizes, draws
        self.corruption, self.encoder, self.latents = corruption, encoder, latents
        self.mapping, self.decoder, self.likelihood = mapping, decoder, likelihood
        self.objective = objective
        self.card: ModelCard | None = None  # set by `untwine.build`

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder, from which `untwine.load` reads it on any machine.

        model.json holds the names and numbers it is built from, and model.safetensors its weights.
        No training state is written, and no data.
        """
        if self.card is None:
            raise RunError("only a model made by untwine.build can be saved; this one has no names")
        if isinstance(self.encoder, Given):
            raise RunError("save the conditional model itself, not what `given` makes of it")
        path = Path(folder).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        weights = pack_weights(self)
        write_bytes(path / "model.safetensors", weights)
        record = {"weights": sha256(weights), "card": self.card.to_json()}
        write_json(path / "model.json", record)
        return path

    def export_onnx(self, folder: str | Path) -> list[Path]:
        """Write encoder.onnx (images to codes) and decoder.onnx (codes to images) to a folder.

        Both take batches of any size. Where onnxruntime is installed, they are checked with it.
        """
        from untwine.tools.onnx import check_file, export_function

        path = Path(folder).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        device = next(self.parameters()).device
        model = copy.deepcopy(self).cpu().eval() if device.type != "cpu" else self
        with seeded(0), eval_mode(model):
            x = torch.rand(4, *self.sizes.shape)
            w = model.encode(x)
            halves = [
                ("encoder", "images", "codes", x, model.encode_graph),
                ("decoder", "codes", "images", w, model.decode_graph),
            ]
            files: list[Path] = []
            for name, source, target, example, function in halves:
                file = path / f"{name}.onnx"
                export_function(
                    file, model, function, example, input_name=source, output_name=target
                )
                with contextlib.suppress(MissingLibraryError), torch.no_grad():
                    for batch in (example[:1], example.repeat(2, *[1] * (example.ndim - 1))):
                        check_file(file, batch, function(batch))
                files.append(file)
        return files

    def encode_graph(self, x: Tensor) -> Tensor:
        """`encode` of checked examples on the model's device, without leaving the graph."""
        return self.mapping(self.infer(Batch(x), mean=True).z)[0]

    def decode_graph(self, w: Tensor) -> Tensor:
        """`decode` of codes on the model's device, without leaving the graph."""
        return self.likelihood.observe(self.decoder(w)).mean

    def __getstate__(self) -> NoReturn:
        raise RunError("models are not pickled; use model.save(folder) and untwine.load(folder)")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def _repr_html_(self) -> str:
        """The model as a card for notebooks: equation, parts, size, and how much it uses."""
        names = self.card.model if self.card else ()
        entries = [models[part.name] for part in names]
        profiles = self.card.latents if self.card else ()
        active = sum(profile.nats >= ACTIVE_NATS for profile in profiles)
        used = f", {active} of them active" if profiles else ""
        rows = {
            "model": " + ".join(map(models.expression, names)),
            "data": self.card.data if self.card else "",
            "examples": "x".join(map(str, self.sizes.shape)),
            "latents": f"{self.latents.out_features}{used}",
            "parts": ", ".join(self._changed_parts()),
            "terms": ", ".join(self.objective.terms),
            "weights": f"{sum(p.numel() for p in self.parameters()):,}",
        }
        title = " + ".join(entry.title for entry in entries) or "VAE"
        text = "\n\n".join(entry.description.partition("\n>>> ")[0] for entry in entries)
        return card_html(title, [row for row in rows.items() if row[1]], text=text.strip())

    def _changed_parts(self) -> list[str]:
        """The names of the parts that are not those of a plain VAE."""
        defaults = (NoCorruption, SingleLatent, GaussianPosterior, StandardNormal, IdentityMapping)
        inner = [getattr(self.latents, name, None) for name in ("posterior", "prior")]
        slots = [self.corruption, self.latents, *inner, self.mapping]
        return [
            type(slot).__name__
            for slot in slots
            if isinstance(slot, nn.Module) and not isinstance(slot, defaults)
        ]

    def __repr__(self) -> str:
        names = self._changed_parts()
        shape = "x".join(map(str, self.sizes.shape))
        terms = "+".join(self.objective.terms)
        parts = [f"{shape} to {self.latents.out_features} latents", *names, f"terms {terms}"]
        weights = sum(p.numel() for p in self.parameters())
        return f"<VAE: {', '.join(parts)}, {weights:,} weights>"

    @property
    def has_mapping(self) -> bool:
        """Whether a mapping changes the code: w, which the decoder sees, is not z."""
        return not isinstance(self.mapping, IdentityMapping)

    @property
    def columns(self) -> Columns | None:
        """The columns of the table that the model was built for."""
        return self.card.columns if self.card else None

    @property
    def labels(self) -> Labels:
        """The labels that this model needs, with the names of their levels; empty for most."""
        return self.sizes.labels

    def given(self, labels: Mapping[str, Any] | None = None, /, **more: Any) -> VAE:
        """This model for examples of known labels, which needs no labels any more.

        A level is its name or its number. One level counts for all examples, a list of levels has
        one for each. The weights are shared with this model.

        >>> import numpy as np, untwine
        >>> data = untwine.from_arrays(np.zeros((6, 8, 8)), np.arange(6) % 3, names=("digit",))
        >>> model = untwine.build("conditional", data, network="mlp")
        >>> tuple(model.given(digit=2).sample(4).shape)
        (4, 1, 8, 8)
        """
        chosen = {**(labels or {}), **more}
        if not self.labels:
            raise IncompatibleError("this model has no labels; call it without `given`")
        return self._with_levels(chosen_levels(self.labels, chosen))

    def given_data(self, data: Dataset, index: Any) -> VAE:
        """This model for the examples of the data at these positions, whose labels it looks up.

        A model without labels is returned as it is.
        """
        if not self.labels:
            return self
        positions = index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        return self._with_levels(torch.from_numpy(levels_of(self.labels, data, positions)))

    def given_in_turn(self, n: int = 1) -> VAE:
        """This model for n examples with all levels in turn; a model without labels as it is."""
        return self._with_levels(levels_in_turn(self.labels, n)) if self.labels else self

    def _with_levels(self, levels: Tensor) -> VAE:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        levels = levels.to(next(self.parameters()).device)
        halves = {name: Given(getattr(self, name), levels) for name in ("encoder", "decoder")}
        twin.__dict__["_modules"] = {**self._modules, **halves}
        twin.sizes = replace(self.sizes, labels={})
        return twin.train(self.training)

    def add_labels(self, data: Dataset) -> Dataset:
        """The data with the labels that this model trains with, if it needs any."""
        if not self.labels:
            return data
        levels = levels_of(self.labels, data, np.arange(len(data)))
        return replace(data, labels=torch.from_numpy(levels))

    def trace(self, batch: Batch, *, mean: bool = False, features: Tensor | None = None) -> Trace:
        """Run one pass and return everything it computed.

        With `mean`, the code and its decoding are deterministic; a KL estimated from a sample stays
        random. Pass `features` to reuse the encoder's output for this batch.
        """
        inferred = self.infer(batch, mean=mean, features=features)
        w, extras = self.mapping(inferred.z)
        px = self.likelihood.observe(self._run(self.decoder, w, batch.labels))
        return Trace(batch, inferred.target, inferred.latents, inferred.z, w, px, extras)

    def forward(self, batch: Batch | Tensor) -> dict[str, Tensor]:
        """The terms of the objective for a batch, and their weighted sum under `loss`.

        For training loops of your own; in evaluation mode nothing is corrupted.
        """
        return self.objective(self.trace(batch if isinstance(batch, Batch) else Batch(batch)))

    def infer(
        self, batch: Batch, *, mean: bool = False, features: Tensor | None = None
    ) -> Inference:
        """Run the first half of a pass: encoder and latents."""
        x, target = self.corruption(batch.x)
        if self.training and self.draws > 1:
            x, target, batch = _repeat(x, target, batch, self.draws)
        h = self._run(self.encoder, x, batch.labels) if features is None else features
        latents = self.latents(h, batch, self.encoder, mean=mean)
        z = [latent.per_example(mean=mean) for latent in latents.values() if latent.feeds_decoder]
        return Inference(target, latents, torch.cat(z, -1))

    def _run(self, half: nn.Module, x: Tensor, labels: Tensor | None) -> Tensor:
        """Encoder or decoder, with the labels of the batch where the model needs them."""
        if not self.labels or labels is None:
            return half(x)
        return half(x, labels.repeat_interleave(len(x) // len(labels), 0))

    def features(self, x: Tensor) -> Tensor:
        """(B, F) output of the encoder for examples (B, *shape), to infer from several times."""
        return self.encoder(x)

    def as_batch(self, x: Tensor, group: Tensor | None = None) -> Batch:
        """Check examples and move them to the model's device."""
        if not isinstance(x, Tensor) or x.shape[1:] != self.sizes.shape or not len(x):
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            wanted = ", ".join(map(str, ("B", *self.sizes.shape)))
            raise DataError(f"this model takes tensors of shape ({wanted}), not {shape}")
        parameter = next(self.parameters())
        if not x.is_floating_point():
            raise DataError(f"this model takes floats, images in [0, 1], not {x.dtype}")
        device = parameter.device
        return Batch(x.to(device, parameter.dtype), None if group is None else group.to(device))

    @torch.no_grad()
    def infer_means(self, x: Tensor, group: Tensor | None = None) -> Inference:
        """Infer deterministic codes of examples (B, *shape), in evaluation mode."""
        with eval_mode(self), seeded(0):  # samples drawn on the way are not used
            return self.infer(self.as_batch(x, group), mean=True)

    def posterior_mean(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(B, D) posterior means z, before the mapping."""
        return self.infer_means(x, group).z

    @torch.no_grad()
    def encode(self, x: Any, group: Tensor | None = None) -> Any:
        """(B, D') representations w: posterior means after the mapping.

        A tensor gives a tensor. A dataset, or anything that `as_dataset` takes, gives an array; a
        folder or file is read as the training data was.
        """
        if not isinstance(x, Tensor):
            codes = [model.encode(chunk).cpu() for model, chunk in self._chunks(x)]
            return torch.cat(codes).numpy()
        return self.map_latents(self.posterior_mean(x, group))

    def _chunks(self, x: Any) -> Iterator[tuple[VAE, Tensor]]:
        """Examples of anything that `as_dataset` takes, with this model for their labels."""
        if isinstance(x, str | Path):
            x = open_as(self.card.data if self.card else "", str(x), self.sizes.shape)
        data = as_dataset(x, like=self.columns) if self.labels else x
        chunks = example_chunks(data, self.sizes.shape, self.columns)
        if isinstance(self.encoder, Given) and len(self.encoder.levels) > 1:
            chunks = iter([torch.cat(list(chunks))])  # as it was given the labels of all at once
        start = 0
        for chunk in chunks:
            yield self.given_data(data, np.arange(start, start + len(chunk))), chunk
            start += len(chunk)

    def encode_group(self, x: Tensor, group: Tensor | None = None) -> Tensor:
        """(R, D) posterior means of the latents that R groups share, ordered by group id."""
        latents = self.infer_means(x, group).latents.values()
        shared = [latent.draw.mean for latent in latents if latent.rows is not None]
        if not shared:
            raise IncompatibleError("this model has no latent that a group shares; use encode")
        return torch.cat(shared, -1)

    def assign(self, x: Tensor) -> Tensor:
        """(B,) index of the most likely cluster of each example."""
        weights = self.cluster_weights(self.infer_means(x))
        if weights is None:
            raise IncompatibleError("this model has no clusters; use encode")
        return weights.argmax(-1)

    @torch.no_grad()
    def cluster_weights(self, inferred: Inference) -> Tensor | None:
        """(B, K) probabilities of the clusters; None for a model without clusters.

        They are a latent named `cluster`, a tensor of that name that the mapping reports, or, by
        Bayes' rule, the components of a prior that has clusters.
        """
        if "cluster" in inferred.latents:
            return inferred.latents["cluster"].draw.mean
        with eval_mode(self):
            weights = self.mapping(inferred.z)[1].get("cluster")
        if weights is not None:
            return weights
        p = next(iter(inferred.latents.values())).p
        if getattr(getattr(self.latents, "prior", None), "has_clusters", False):
            assert isinstance(p, Mixture), "a prior with clusters is a mixture"
            return p.log_joint(inferred.z).softmax(-1)
        return None

    @torch.no_grad()
    def decode(self, w: Tensor) -> Tensor:
        """(B, *shape) expected images of representations (B, D')."""
        with eval_mode(self):
            return self.likelihood.observe(self.decoder(w.to(next(self.parameters())))).mean

    @torch.no_grad()
    def map_latents(self, z: Tensor) -> Tensor:
        """(B, D') codes w, which the decoder sees, of codes z (B, D)."""
        with eval_mode(self):
            return self.mapping(z.to(next(self.parameters())))[0]

    def decode_latents(self, z: Tensor) -> Tensor:
        """(B, *shape) expected images of codes z (B, D), before the mapping."""
        return self.decode(self.map_latents(z))

    @torch.no_grad()
    def sample_latents(
        self, n: int, *, seed: int | None = None, sampler: Sampler = "own"
    ) -> Tensor:
        """(n, D) codes z drawn from the model's own prior, or from N(0, I)."""
        with eval_mode(self), seeded(seed):
            if sampler == "normal":
                return torch.randn(n, self.latents.out_features).to(next(self.parameters()))
            return self.latents.sample(n, self.encoder)

    @torch.no_grad()
    def sample_codes(self, x: Tensor, *, seed: int | None = None) -> Tensor:
        """(B, D') one draw from the posterior of each example, after the mapping."""
        with eval_mode(self), seeded(seed):
            return self.map_latents(self.infer(self.as_batch(x)).z)

    @torch.no_grad()
    def sample(
        self,
        n: int,
        *,
        seed: int | None = None,
        noise: bool = False,
        sampler: Sampler = "own",
    ) -> Tensor:
        """(n, *shape) expected images of codes drawn from the model's own prior, or from N(0, I).

        With `noise`, data drawn from p(x|w) instead of its mean. A conditional model takes the
        levels of its labels in turn; `given` chooses them.
        """
        model = self.given_in_turn(n)
        with eval_mode(model), seeded(seed):
            w = model.map_latents(model.sample_latents(n, sampler=sampler))
            px = model.likelihood.observe(model.decoder(w))
            return px.sample() if noise else px.mean

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """(B, *shape) reconstructions: examples encoded to the mean and decoded."""
        return self.decode(self.encode(x))

    @torch.no_grad()
    def traverse(self, x: Tensor, values: Tensor, dims: list[int] | None = None) -> Tensor:
        """Decode images while one latent at a time takes other values.

        Args:
            x: (*shape) the image to start from.
            values: (V,) the values each latent takes.
            dims: indices of the latents; all by default.

        Returns:
            (len(dims), V, *shape)
        """
        with eval_mode(self):
            z = self.posterior_mean(x[None])  # (1, D)
            dims = list(range(z.shape[1])) if dims is None else dims
            grid = z.repeat(len(dims), len(values), 1)  # (len(dims), V, D)
            for row, dim in enumerate(dims):
                grid[row, :, dim] = values.to(z)
            images = self.decode_latents(grid.flatten(0, 1))
        return images.unflatten(0, (len(dims), len(values)))

    @torch.no_grad()
    def elbo(self, x: Tensor, *, seed: int | None = None) -> Tensor:
        """The evidence lower bound in nats, averaged over the batch, with one sample each."""
        if not self.has_elbo:
            raise IncompatibleError(
                "this model weighs the likelihood of each example, so its ELBO is not defined here"
            )
        with eval_mode(self), seeded(seed):
            return self.elbo_of(self.trace(self.as_batch(x)))

    @property
    def has_elbo(self) -> bool:
        """Whether the ELBO is defined: no term weighs the likelihood of each example."""
        return isinstance(self.objective.terms["nll"], NegLogLikelihood)

    def elbo_of(self, trace: Trace) -> Tensor:
        """The evidence lower bound of a pass, averaged over the batch."""
        kl = torch.stack([latent.kl.sum() for latent in trace.latents.values()]).sum()
        return trace.px.log_prob(trace.target).mean() - kl / len(trace.target)

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, samples: int = 100, seed: int | None = None) -> Tensor:
        """(B,) log p(x) in nats by importance sampling with K samples from the posterior.

        log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x): a lower bound in expectation, tight as K grows.
        """
        with seeded(seed):
            weights = self.log_weights(x, samples)
        return reduce(torch.logaddexp, weights.unbind(1)) - math.log(samples)

    @torch.no_grad()
    def log_weights(self, x: Tensor, samples: int) -> Tensor:
        """(B, K) log importance weights p(x|z_k) p(z_k) / q(z_k|x) of posterior samples."""
        if samples < 1:
            raise ParameterError(f"importance weights need at least 1 sample, not {samples}")
        batch = self.as_batch(x)
        with eval_mode(self):
            features = self.features(batch.x)
            traces = (self.trace(batch, features=features) for _ in range(samples))
            return torch.stack([trace.log_weight() for trace in traces], 1)


@dataclass(frozen=True)
class Recipe:
    """The slots one paper changes; `None` leaves the default, `a | b` merges.

    >>> from untwine.models import beta_vae, vae
    >>> (vae() | beta_vae(beta=2.0)).terms["kl"][0]
    2.0
    """

    corruption: Callable[[Sizes], Corruption] | None = None
    posterior: Callable[[Sizes], Posterior] | None = None
    prior: Callable[[Sizes], Prior] | None = None
    latents: Callable[[Sizes], Latents] | None = None
    mapping: Callable[[Sizes], MappingSlot] | None = None
    condition: Condition | None = None  # labels that encoder and decoder see
    terms: Terms = field(default_factory=dict)
    draws: int | None = None  # samples of z per example while training

    def __post_init__(self) -> None:
        for name in self.terms:
            if not name.isidentifier() or name in {"loss", "step"}:
                raise IncompatibleError(
                    f"a term cannot be named {name!r}; use letters, digits and underscores, and "
                    "not 'loss' or 'step', which the history uses"
                )
        fixed = self.slots() & {"posterior", "prior"}
        if self.latents and fixed:
            raise IncompatibleError(
                f"one recipe replaces all latents and another the {' and the '.join(sorted(fixed))}"
                "; use only one of them"
            )

    def slots(self) -> set[str]:
        """Names of the slots that are set, without the terms."""
        return {f.name for f in fields(self) if f.name != "terms" and getattr(self, f.name)}

    def __or__(self, other: Recipe) -> Recipe:
        clash = sorted((self.slots() & other.slots()) | (self.terms.keys() & other.terms.keys()))
        if clash:
            raise IncompatibleError(f"both recipes set {clash}; use only one of them")
        theirs = {slot: getattr(other, slot) for slot in other.slots()}
        return replace(self, **theirs, terms={**self.terms, **other.terms})

    def build(
        self, sizes: Sizes, network: Network, likelihood: Likelihood, *, batch: int = 4
    ) -> VAE:
        """Build the model and run a small batch through it: parts that do not fit fail here.

        Pass the batch size of the training if it is below 4.
        """
        if sizes.latent < 1:
            raise ParameterError(f"a model needs at least 1 latent, not {sizes.latent}")
        likelihood_weight = likelihood.weight(sizes.shape)
        sizes = replace(sizes, features=network.features, likelihood_weight=likelihood_weight)
        single = partial(
            SingleLatent,
            posterior=self.posterior or GaussianPosterior,
            prior=self.prior or StandardNormal,
        )
        network = _add_view(network, likelihood)
        if self.condition:
            network = self.condition.wrap(network, sizes.labels)
        encoder = network.encoder(sizes.shape)
        latents = (self.latents or single)(sizes)
        code = replace(sizes, latent=latents.out_features)
        mapping = (self.mapping or IdentityMapping)(code)
        terms = dict(self.all_terms())
        terms["nll"] = (scale(terms["nll"][0], likelihood_weight), terms["nll"][1])
        raw = torch.Size((sizes.shape[0] * likelihood.outputs, *sizes.shape[1:]))
        model = VAE(
            sizes=replace(sizes, draw_examples=None),  # a model must not keep its data alive
            corruption=(self.corruption or NoCorruption)(sizes),
            encoder=encoder,
            latents=latents,
            mapping=mapping,
            decoder=network.decoder(mapping.out_features, raw),
            likelihood=likelihood,
            objective=Objective(
                {name: (weight, make(code)) for name, (weight, make) in terms.items()}
            ),
            draws=self.draws or 1,
        )
        convert_conv2d_weight_memory_format(model, torch.channels_last)  # as fast kernels need
        try:
            probe(model, min(batch, 4))
        except MissingLabels:
            raise IncompatibleError(
                "a conditional model knows the labels of data alone, and another part encodes "
                "inputs of its own; leave out one of them"
            ) from None
        return model

    def all_terms(self) -> Terms:
        """The terms of the ELBO, extended or replaced by those of this recipe."""
        return {**ELBO, **self.terms}


def _repeat(x: Tensor, target: Tensor, batch: Batch, draws: int) -> tuple[Tensor, Tensor, Batch]:
    """Repeat every example of a batch `draws` times, copies in adjacent rows."""
    x, target = x.repeat_interleave(draws, 0), target.repeat_interleave(draws, 0)
    group = None if batch.group is None else batch.group.repeat_interleave(draws, 0)
    labels = None if batch.labels is None else batch.labels.repeat_interleave(draws, 0)
    return x, target, Batch(x, group, batch.step, labels)


def _add_view(network: Network, likelihood: Likelihood) -> Network:
    """The network with an encoder that sees data as the likelihood asks."""
    view = likelihood.view
    if view is None:
        return network
    return replace(network, encoder=lambda shape: nn.Sequential(View(view), network.encoder(shape)))


@torch.no_grad()
def probe(model: VAE, n: int) -> None:
    """Run n examples through the model in both modes; its state stays as it was."""
    before = {name: value.clone() for name, value in model.named_buffers()}
    with seeded(0):
        labels = torch.zeros(n, len(model.labels), dtype=torch.long) if model.labels else None
        x = torch.rand(n, *model.sizes.shape)
        batch = Batch(x, torch.arange(n) // 2, labels=labels)
        for mode in (False, True):
            model.train(mode)
            trace = model.trace(batch)
            model.objective(trace)
            for adversary in model.objective.adversaries():
                adversary.adversary_loss(trace.z, trace.z)
    for name, value in model.named_buffers():
        value.copy_(before[name])
