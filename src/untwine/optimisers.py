"""How weights are updated: optimisers, learning-rate schedules, and the options of a training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from untwine.errors import ParameterError, UnknownNameError
from untwine.schema import unknown_name

OPTIMISERS = {
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "nadam": "NAdam",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
"""Names of optimisers, and of the classes in `torch.optim` that they stand for."""
SCHEDULES = ("constant", "cosine", "linear", "plateau")
PLATEAU_ROWS = 5  # rows of the history without a lower loss, after which the rate is halved
BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Training:
    """The options of a training beyond its steps, batch size and learning rate.

    Options at their defaults are not part of a run's hash.
    """

    validation: float | str = 0.0  # share of the data that is held out, or a split of the dataset
    patience: int = 0  # rows without a lower validation loss, after which training stops
    optimiser: str = "adam"
    weight_decay: float = 0.0
    clip: float = 0.0  # largest norm of the gradient
    schedule: str = "constant"
    warm_up: int = 0  # steps over which the learning rate rises from 0

    def __post_init__(self) -> None:
        for name, least in (("weight_decay", 0.0), ("clip", 0.0)):
            object.__setattr__(self, name, _number(name, getattr(self, name), least))
        for name in ("patience", "warm_up"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= 10**12:
                raise ParameterError(f"{name} must be a whole number from 0, not {value!r}")
        for name, names in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in names:
                raise UnknownNameError(unknown_name(name, str(getattr(self, name)), names))
        object.__setattr__(self, "validation", _share_or_split(self.validation))
        if self.patience and not self.validation:
            raise ParameterError(
                "patience needs held-out data to watch; add validation, for example 0.1"
            )

    def changed(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        defaults = asdict(Training())
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}

    def has_schedule(self) -> bool:
        """Whether the learning rate changes."""
        return self.schedule != "constant" or self.warm_up > 0

    def rate(self, step: int, steps: int, halvings: int = 0) -> float:
        """The factor of the learning rate at a step, counted from 0, of a training of `steps`.

        >>> [round(Training(schedule="cosine", warm_up=2).rate(step, 10), 3) for step in (0, 6)]
        [0.5, 0.5]
        """
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, steps - self.warm_up)
        if self.schedule == "cosine":
            return (1 + math.cos(math.pi * done)) / 2
        if self.schedule == "linear":
            return 1 - done
        return 0.5**halvings if self.schedule == "plateau" else 1.0


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < math.inf:
        raise ParameterError(f"{name} must be a number of at least {least:g}, not {value!r}")
    return number


def _share_or_split(value: Any) -> float | str:
    """A share below 1 as a number, and any other text as the name of a split."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        if isinstance(value, str) and value.strip():
            return value.strip()
        share = math.nan
    if not 0 <= share < 1:
        raise ParameterError(
            "validation must be a share of the data from 0 to below 1, or the name of a split, "
            f"not {value!r}"
        )
    return share


class FusedAdam:
    """Adam in one fused kernel; bit for bit `torch.optim.Adam(..., fused=True)`.

    Building torch's own imports its compiler, which takes a second, and wraps every step.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = BETAS,
        weight_decay: float = 0.0,
    ) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": lr}]
        self.betas, self.weight_decay = betas, weight_decay
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.param_groups[0]["params"]:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        (group,) = self.param_groups
        moved = [p for p in group["params"] if p.grad is not None]
        for p in moved:
            if p not in self.state:
                zeros = torch.zeros_like(p, memory_format=torch.preserve_format)
                self.state[p] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": zeros,
                    "exp_avg_sq": zeros.clone(),
                }
        if not moved:
            return
        moments = [self.state[p] for p in moved]
        steps = [m["step"] for m in moments]
        torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            moved,
            [p.grad for p in moved],
            [m["exp_avg"] for m in moments],
            [m["exp_avg_sq"] for m in moments],
            [],
            steps,
            lr=group["lr"],
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """The moments by the number of their parameter, as torch's optimisers give them."""
        params = self.param_groups[0]["params"]
        numbered = {i: self.state[p] for i, p in enumerate(params) if p in self.state}
        return {"state": numbered, "param_groups": []}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        params = self.param_groups[0]["params"]
        self.state = {
            params[i]: {k: v.to(params[i].device, torch.float32) for k, v in moments.items()}
            for i, moments in state["state"].items()
        }


Optimiser = FusedAdam | torch.optim.Optimizer


def make_optimiser(
    name: str,
    parameters: Iterable[nn.Parameter],
    lr: float,
    *,
    betas: tuple[float, float] = BETAS,
    weight_decay: float = 0.0,
) -> Optimiser:
    """The optimiser of this name, with torch's own defaults."""
    parameters = list(parameters)
    kinds = {(p.device.type, p.dtype) for p in parameters}
    fused = kinds in ({("cpu", torch.float32)}, {("cuda", torch.float32)})
    if name != "adam":
        return getattr(torch.optim, OPTIMISERS[name])(parameters, lr, weight_decay=weight_decay)
    if fused and hasattr(torch, "_fused_adam_"):
        return FusedAdam(parameters, lr, betas, weight_decay)
    return torch.optim.Adam(parameters, lr, betas=betas, weight_decay=weight_decay, fused=fused)
