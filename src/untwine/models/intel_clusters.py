"""Clustered InteL-VAE: split the code into sectors and push them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, cast

import torch
from torch import Tensor, nn

from untwine.errors import IncompatibleError, ParameterError
from untwine.models._papers import MIAO_2022
from untwine.records import Sizes
from untwine.registry import model
from untwine.schema import NonNegative, Positive, Range
from untwine.slots import Extras, Mapping
from untwine.vae import Recipe

Push = Callable[[Tensor], Tensor]
Boundary = Literal["bias", "moved"]
REACH = 4.0  # how far from 0 a moved boundary can go, in standard deviations of the prior


def push(distance: Tensor, c1: float, c2: float, eta: float) -> Tensor:
    """c₁((d + η)^c₂ − η^c₂), how far to move a point at distance d from the boundary."""
    return c1 * ((distance + eta) ** c2 - eta**c2)


def direction(angle: Tensor) -> Tensor:
    """(..., 2) the unit vector at an angle (...)."""
    return torch.stack([angle.cos(), angle.sin()], -1)


def nearest_ray(y: Tensor, rays: Tensor) -> Tensor:
    """(B,) distance of points y (B, 2) to the nearest of the rays from the origin along (K, 2).

    The nearest ray is a boundary of the point's own sector, so this is dis(y). It does not use
    angles, so its gradient is finite everywhere.
    """
    across = (y[:, :1] * rays[:, 1] - y[:, 1:] * rays[:, 0]).abs()  # (B, K)
    behind = y @ rays.T <= 0
    away = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    return torch.where(behind, away, across).amin(-1)


def _register(owner: nn.Module, name: str, value: Tensor, learned: bool) -> None:
    """Register a value as a parameter if it is learned, else as a constant."""
    if learned:
        owner.register_parameter(name, nn.Parameter(value))
    else:
        owner.register_buffer(name, value, persistent=False)


class Sectors(nn.Module):
    """w = y + c₁ dis(y)^c₂ r(y) on a plane cut into K sectors of angle 2π·softmax(u)_k; eq. C.2."""

    u: Tensor  # (K,)
    width = 2

    def __init__(self, clusters: int, learned: bool, away: Push) -> None:
        super().__init__()
        _register(self, "u", torch.zeros(clusters), learned)
        self.push = away
        # Two sectors split the first axis, as they do in one dimension.
        self.start = -math.pi / 2 if clusters == 2 else 0.0

    def proportions(self) -> Tensor:
        return self.u.softmax(0)

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Points y (B, 2) to w (B, 2) and the index (B,) of their sector."""
        angle = math.tau * self.proportions()  # (K,)
        ends = angle.cumsum(0)
        k = self.index(y.detach(), ends.detach())
        r = direction(self.start + ends - angle / 2)[k]  # (B, 2)
        dis = nearest_ray(y, direction(self.start + ends - angle))
        return y + self.push(dis)[:, None] * r, k

    def index(self, y: Tensor, ends: Tensor) -> Tensor:
        """(B,) the sector of each point."""
        angle = (torch.atan2(y[:, 1], y[:, 0]) - self.start).remainder(math.tau)
        return (angle[:, None] >= ends[:-1]).sum(-1)


class Halves(nn.Module):
    """A line cut at t, whose halves are pushed apart; the upper one comes first.

    With a bias the line is moved so that it is cut at 0: w = y' + c₁ sign(y')|y'|^c₂, y' = y + b,
    t = −b. With a moved boundary the points stay: w = y + c₁ sign(y − t)|y − t|^c₂,
    t = 8 sigmoid(b) − 4.
    """

    b: Tensor  # (1,)
    width = 1

    def __init__(self, learned: bool, boundary: Boundary, away: Push) -> None:
        super().__init__()
        _register(self, "b", torch.zeros(1), learned)
        self.boundary: Boundary = boundary
        self.push = away

    def cut(self) -> Tensor:
        """(1,) t, where the line is cut."""
        return -self.b if self.boundary == "bias" else 2 * REACH * self.b.sigmoid() - REACH

    def proportions(self) -> Tensor:
        t = self.cut()
        return torch.special.ndtr(torch.cat([-t, t]))

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Points y (B, 1) to w (B, 1) and the index (B,) of their half."""
        beyond = y - self.cut()
        start = beyond if self.boundary == "bias" else y
        return start + beyond.sign() * self.push(beyond.abs()), (beyond < 0).long().squeeze(-1)


Plane = Sectors | Halves


class Clusters(Mapping):
    """Sectors in the first planes (y₁, y₂), (y₃, y₄), …, or halves of the first latents.

    Other latents stay as they are. Reports `cluster` (B, ΠK), one-hot, with the last plane varying
    fastest. Refuses more planes or lines than the latents suffice for.
    """

    def __init__(
        self,
        sizes: Sizes,
        clusters: tuple[int, ...],
        learned: bool,
        away: Push,
        *,
        lines: bool = False,
        boundary: Boundary = "bias",
    ) -> None:
        super().__init__()
        lines = lines or (sizes.latent == 1 and clusters == (2,))
        if sizes.latent < len(clusters) * (1 if lines else 2):
            raise IncompatibleError(
                f"intel-clusters needs {len(clusters)} latents to split, not {sizes.latent} in all"
                if lines
                else f"intel-clusters needs 2 latents for each of the planes {clusters}, not "
                f"{sizes.latent} in all; a single latent can have clusters (2,)"
            )
        self.out_features, self.clusters = sizes.latent, clusters
        planes = [
            Halves(learned, boundary, away) if lines else Sectors(k, learned, away)
            for k in clusters
        ]
        self.widths = [plane.width for plane in planes]
        self.planes = nn.ModuleList(planes)

    def proportions(self) -> list[Tensor]:
        """For each plane, (K,) prior probabilities of its sectors."""
        return [cast("Plane", plane).proportions().detach() for plane in self.planes]

    def forward(self, z: Tensor) -> tuple[Tensor, Extras]:
        rest = self.out_features - sum(self.widths)
        *parts, others = z.split([*self.widths, rest], -1)
        mapped = [plane(y) for plane, y in zip(self.planes, parts, strict=True)]
        joint = torch.zeros_like(mapped[0][1])
        for size, (_, k) in zip(self.clusters, mapped, strict=True):
            joint = joint * size + k
        every = torch.arange(math.prod(self.clusters), device=z.device)
        cluster = (joint[:, None] == every).to(z)  # one_hot would wait to look at the indices
        return torch.cat([*(w for w, _ in mapped), others], -1), {"cluster": cluster}


@model(
    title="InteL-VAE, clusters",
    paper="Miao et al., 2022",
    url="https://arxiv.org/abs/2106.13746",
    process="y ~ N(0, I), w = g(y) with gaps between sectors, x ~ p(x|w)",
    use="The number of clusters is known, and a density of the code is needed.",
    avoid="Clusters are unequal and many: sectors share one plane.",
    bibtex=MIAO_2022,
)
def intel_clusters(
    *,
    clusters: Annotated[tuple[int, ...], Range(2)] = (10,),
    learned: bool = False,
    c1: NonNegative = 5.0,
    c2: Positive = 0.2,
    eta: Positive = 1e-6,
    split: Literal["planes", "lines"] = "planes",
    boundary: Boundary = "bias",
) -> Recipe:
    """Split the code into clusters with gaps between them (Miao et al., 2022).

    L = E_q(y|x)[−log p(x|g(y))] + KL(q(y|x) ‖ N(0, I)),   g(y) = y + c₁ dis(y)^c₂ r(y)

    The plane of the first two latents is cut into K sectors; r(y) is the direction in which the
    point's sector lies and dis(y) the distance to its boundary. dis^c₂ is smoothed to
    (dis + η)^c₂ − η^c₂, whose slope at the boundary is finite. Two sectors split the first latent;
    a single latent takes clusters (2,) and g(y) = y + c₁ sign(y)|y|^c₂. With `split` lines each of
    the first k latents is split in this way, which makes 2^k clusters, as in the authors' code for
    images. With `learned`, sector k has the angle 2π softmax(u)_k, and a line is moved by a bias b
    before it is split, or its boundary t = 8 sigmoid(b) − 4 is moved instead, as in the authors'
    code; `model.mapping.proportions()` reads them and `model.assign` gives the sector of an
    example. On two Gaussians the bias finds the proportions in a few thousand steps; the angles
    hardly move. Refuses planes for which there are no latents.

    Args:
        clusters: sectors of each plane (y₁, y₂), (y₃, y₄), …, or a 2 for each line; their product
            is the number of clusters. The paper shows 2 and 3, and does not say how many it takes
            for digits.
        learned: learn the clusters' proportions instead of equal ones.
        c1: c₁, how far clusters are pushed; 5 in the paper, 1 in the authors' code for images, 0 is
            the VAE.
        c2: c₂, how sharply the boundary parts; 0.2 in the paper, 0.5 in the authors' later code.
        eta: η, the smoothing at the boundary; 0 in the paper.
        split: planes of two latents each, or single latents (lines), whose clusters are 2 each.
        boundary: how the split of a line is learned: by a bias on the latent, or by moving the
            boundary while the latent stays.
    """
    if not clusters:
        raise ParameterError("intel-clusters.clusters must name at least one plane")
    if split == "lines" and {*clusters} != {2}:
        raise ParameterError(
            "intel-clusters.clusters must be 2 for each latent that is split, as in clusters=2,2,2 "
            f"for eight clusters, not {clusters}"
        )
    away = partial(push, c1=c1, c2=c2, eta=eta)
    return Recipe(
        mapping=partial(
            Clusters,
            clusters=clusters,
            learned=learned,
            away=away,
            lines=split == "lines",
            boundary=boundary,
        )
    )
