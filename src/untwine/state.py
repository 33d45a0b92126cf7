"""The state of a training: everything needed to resume it bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from untwine.errors import RunError
from untwine.optimisers import PLATEAU_ROWS, Optimiser, Training, make_optimiser
from untwine.vae import VAE

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, float]
PackedState = tuple[dict[str, Tensor], dict[str, Any]]  # a training state as tensors and as JSON


class History(list[Row]):
    """Rows of step and mean value of each term since the previous row."""

    def __repr__(self) -> str:
        last = f" to step {self[-1]['step']:,.0f}, loss {self[-1]['loss']:.4g}" if self else ""
        return f"<History: {len(self)} rows{last}>"

    def to_frame(self) -> DataFrame:
        """Return a table with one column per term."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def best_step(self) -> int:
        """The step with the lowest validation loss, or the lowest loss without validation."""
        best = min(self, key=lambda row: row.get("validation_loss", row["loss"]))
        return int(best["step"])


@dataclass
class Watched:
    """The lowest loss so far, on held-out data if there is any, and how long ago it was."""

    lowest: float | None = None
    rows_without_gain: int = 0
    halvings: int = 0  # of the learning rate, one for every `PLATEAU_ROWS` rows without gain

    def improves(self, row: Row) -> bool:
        """Whether the loss of a row is the lowest so far."""
        loss = row.get("validation_loss", row["loss"])
        if self.lowest is None or loss < self.lowest:
            self.lowest, self.rows_without_gain = loss, 0
            return True
        self.rows_without_gain += 1
        self.halvings += self.rows_without_gain % PLATEAU_ROWS == 0
        return False


class State:
    """Everything needed to resume training bit for bit."""

    def __init__(
        self, model: VAE, lr: float, *, steps: int = 1, options: Training | None = None
    ) -> None:
        self.model, self.lr, self.steps = model, lr, steps
        self.options = options or Training()
        self.adversaries = model.objective.adversaries()
        adversarial = {id(p) for adversary in self.adversaries for p in adversary.parameters()}
        self.parameters = [
            p for p in model.parameters() if p.requires_grad and id(p) not in adversarial
        ]
        self.optimiser = make_optimiser(
            self.options.optimiser, self.parameters, lr, weight_decay=self.options.weight_decay
        )
        self.adversary_optimisers = [
            make_optimiser("adam", a.parameters(), a.lr, betas=a.betas) for a in self.adversaries
        ]
        self.step = 0
        self.history: list[Row] = []
        self.names = ["loss", *model.objective.terms]
        device = self.parameters[0].device
        self.step_tensor = torch.zeros((), dtype=torch.long, device=device)  # for schedules
        self.pending = torch.zeros(len(self.names), device=device)  # sums since the last row
        self.pending_steps = 0
        self.watched = Watched()
        self.best_weights: dict[str, Tensor] = {}

    def update_weights(self) -> None:
        """Take a step along the gradients, clipped, at the learning rate of this step."""
        if self.options.clip:
            clip_grad_norm_(self.parameters, self.options.clip)
        if self.options.has_schedule():
            for group in self.optimiser.param_groups:
                group["lr"] = self.rate(self.step)
        self.optimiser.step()

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.lr * self.options.rate(step, self.steps, self.watched.halvings)

    def step_adversaries(self, z: Tensor, other: Tensor) -> None:
        """Update each adversary on detached codes of this batch and of an independent one."""
        for adversary, optimiser in zip(self.adversaries, self.adversary_optimisers, strict=True):
            optimiser.zero_grad(set_to_none=True)
            adversary.adversary_loss(z, other).backward()
            optimiser.step()

    def record(self, terms: dict[str, Tensor]) -> None:
        """Add the terms of a step to the pending row, without synchronising with the device."""
        self.pending += torch.stack([terms[name].detach() for name in self.names])
        self.step_tensor += 1
        self.pending_steps += 1
        self.step += 1

    def close_row(self, validation: Row | None = None) -> Row:
        """Append the mean of the terms since the last row to the history.

        `validation` are the terms on held-out data. With patience, the weights with the lowest
        validation loss are kept.
        """
        self.require_finite()
        means = (self.pending / self.pending_steps).tolist()
        row: Row = {"step": self.step, **dict(zip(self.names, means, strict=True))}
        if self.options.has_schedule():
            row["lr"] = self.rate(self.step - 1)
        row |= validation or {}
        self.require_finite_validation(row)
        self.history.append(row)
        self.pending.zero_()
        self.pending_steps = 0
        if self.watched.improves(row) and self.options.patience:
            weights = self.model.state_dict()
            self.best_weights = {name: value.clone() for name, value in weights.items()}
        return row

    def is_out_of_patience(self) -> bool:
        """Whether the validation loss has not fallen for too long."""
        return 0 < self.options.patience <= self.watched.rows_without_gain

    def restore_best(self) -> None:
        """Give the model the weights with the lowest validation loss, where they are kept."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)

    def require_finite(self) -> None:
        """Raise `RunError` if a term or a weight is NaN or infinite."""
        all_weights = torch.stack([p.isfinite().all() for p in self.parameters]).all()
        *finite, weights = torch.cat([self.pending.isfinite(), all_weights[None]]).tolist()
        if all(finite) and weights:
            return
        bad = [name for name, good in zip(self.names, finite, strict=True) if not good]
        first = self.step - self.pending_steps + 1
        what = f"{' and '.join(bad)} became NaN or infinite" if bad else "the weights diverged"
        raise RunError(
            f"training stopped: {what} between steps {first} and {self.step}; "
            "lower the learning rate or the weights of the terms"
        )

    def require_finite_validation(self, row: Row) -> None:
        """Raise `RunError` if the validation loss is NaN or infinite."""
        if not math.isfinite(row.get("validation_loss", 0.0)):
            raise RunError(
                f"training stopped: the validation loss became NaN or infinite at step {self.step};"
                " look for odd examples, or lower the learning rate"
            )

    def save_checkpoint(self, checkpoint: Callable[[State], None] | None) -> None:
        """Pass the state to `checkpoint`, if any, after checking that it is finite."""
        if checkpoint:
            self.require_finite()
            checkpoint(self)

    def optimisers(self) -> list[Optimiser]:
        return [self.optimiser, *self.adversary_optimisers]

    def pack(self) -> PackedState:
        """Return the state as named tensors and as values for JSON."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for i, optimiser in enumerate(self.optimisers()):
            for p, moments in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser.{i}.{p}.{k}": v for k, v in moments.items()}
        tensors |= {f"best.{k}": v for k, v in self.best_weights.items()}
        tensors["pending"] = self.pending
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.pending.device.type != "cpu":
            tensors["rng.device"] = torch.get_device_module(self.pending.device).get_rng_state()
        values = {
            "step": self.step,
            "pending_steps": self.pending_steps,
            "history": self.history,
            "watched": asdict(self.watched),
        }
        return tensors, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Unpack a state; refuse one that is not of this model and optimiser."""
        try:
            self.unpack(tensors, values)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"the checkpoint is not of this model ({reason}); delete it") from error

    def unpack(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore what `pack` returned, random number generators included."""
        groups: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.optimisers()]
        weights: dict[str, Tensor] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = value
            elif kind == "best":
                self.best_weights[rest] = value
            elif kind == "optimiser":
                i, p, key = rest.split(".")
                groups[int(i)].setdefault(int(p), {})[key] = value
        self.model.load_state_dict(weights)
        for optimiser, state in zip(self.optimisers(), groups, strict=True):
            fresh = optimiser.state_dict()
            optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
            for p, moments in optimiser.state.items():  # fused Adam needs one memory layout
                for key, value in moments.items():
                    if value.shape == p.shape:
                        moments[key] = torch.empty_like(p).copy_(value)
        self.pending.copy_(tensors["pending"])
        torch.set_rng_state(tensors["rng.cpu"].cpu())
        if "rng.device" in tensors:
            torch.get_device_module(self.pending.device).set_rng_state(tensors["rng.device"].cpu())
        self.step, self.pending_steps = values["step"], values["pending_steps"]
        self.step_tensor.fill_(self.step)
        self.history = list(values["history"])
        self.watched = Watched(**values.get("watched", {}))
