"""One pass through the slots of a VAE, and the labels that it may depend on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from untwine.data.dataset import Dataset
from untwine.errors import (
    DataError,
    IncompatibleError,
    RunError,
)
from untwine.parts.defaults import (
    GaussianPosterior,
    IdentityMapping,
    NoCorruption,
    SingleLatent,
    StandardNormal,
)
from untwine.parts.labels import (
    Given,
    chosen_levels,
    levels_in_turn,
    levels_of,
)
from untwine.parts.objective import Objective
from untwine.parts.terms import NegLogLikelihood
from untwine.records import (
    ACTIVE_NATS,
    Batch,
    Columns,
    Inference,
    Labels,
    Likelihood,
    ModelCard,
    Sizes,
    Trace,
)
from untwine.registry import models
from untwine.slots import Corruption, Latents
from untwine.slots import Mapping as MappingSlot
from untwine.tools.files import expand_user, sha256, write_bytes
from untwine.tools.notebook import card_html
from untwine.tools.sealed import write_json
from untwine.tools.weights import pack_weights


class Autoencoder(nn.Module):
    """x → corruption → encoder → latents → mapping → decoder → p(x|w), with the objective.

    A `VAE` is one that can be asked for codes, samples and likelihoods.
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
        path = expand_user(folder)
        path.mkdir(parents=True, exist_ok=True)
        for leftover in path.glob(".model.*.tmp"):  # of a process that died while writing
            leftover.unlink(missing_ok=True)
        weights = pack_weights(self)
        write_bytes(path / "model.safetensors", weights)
        record = {"weights": sha256(weights), "card": self.card.to_json()}
        write_json(path / "model.json", record)
        return path

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

    def given(self, labels: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
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

    def given_data(self, data: Dataset, index: Any) -> Self:
        """This model for the examples of the data at these positions, whose labels it looks up.

        A model without labels is returned as it is.
        """
        if not self.labels:
            return self
        positions = index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        return self._with_levels(torch.from_numpy(levels_of(self.labels, data, positions)))

    def given_in_turn(self, n: int = 1) -> Self:
        """This model for n examples with all levels in turn; a model without labels as it is."""
        return self._with_levels(levels_in_turn(self.labels, n)) if self.labels else self

    def _with_levels(self, levels: Tensor) -> Self:
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

    @property
    def has_elbo(self) -> bool:
        """Whether the ELBO is defined: no term weighs the likelihood of each example."""
        return isinstance(self.objective.terms["nll"], NegLogLikelihood)

    def elbo_of(self, trace: Trace) -> Tensor:
        """The evidence lower bound of a pass, averaged over the batch."""
        kl = torch.stack([latent.kl.sum() for latent in trace.latents.values()]).sum()
        return trace.px.log_prob(trace.target).mean() - kl / len(trace.target)

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


def _repeat(x: Tensor, target: Tensor, batch: Batch, draws: int) -> tuple[Tensor, Tensor, Batch]:
    """Repeat every example of a batch `draws` times, copies in adjacent rows."""
    x, target = x.repeat_interleave(draws, 0), target.repeat_interleave(draws, 0)
    group = None if batch.group is None else batch.group.repeat_interleave(draws, 0)
    labels = None if batch.labels is None else batch.labels.repeat_interleave(draws, 0)
    return x, target, Batch(x, group, batch.step, labels)
