"""Ray casting of one solid in the corner of a room, for all views at once.

The floor is z = 0, the walls are x = WALL and y = WALL, the solid stands on the origin. All views
of a solid are cast together; the two things that light does to the floor, the shadow and the dark
where it touches, are cast once per solid into a small map.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

WALL = 3.0
HEIGHT = 1.95  # of the walls; above them is the sky
CAMERA = 4.6, 2.1  # distance from the solid and height
TARGET = 0.72  # height of the point in the middle of the image
VIEW = math.radians(37)  # angle from the left edge of the image to the right one
SUN = (-0.3, -0.62, 0.9)  # towards the light, which comes from behind the camera
FLOOR, WALLS, SOLID, WHITE = range(4)  # what a colour is for
SAMPLES = 3  # a pixel is the mean over this many rays squared
MAP, REACH = 96, 2.4  # pixels and half side of the map of a shadow, at scale one
Cast = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Rays, as origin and direction (..., 3), to distance (...) and normal (..., 3)."""


@dataclass(frozen=True)
class View:
    """Rays of several cameras through the same pixels."""

    origin: Tensor  # (O, 1, 3)
    direction: Tensor  # (O, R, 3)


def unit(vector: Tensor) -> Tensor:
    return vector / vector.norm(dim=-1, keepdim=True)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of short vectors; much faster than a sum over so few numbers."""
    total = a[..., 0] * b[..., 0]
    for axis in range(1, a.shape[-1]):
        total = total + a[..., axis] * b[..., axis]
    return total


def views(angles: Tensor, size: int) -> View:
    """Cameras on a circle around the solid, all looking at it.

    Args:
        angles: (O,) around the solid, in radians; at zero the corner is in the middle.
        size: side of the images in pixels.
    """
    around = angles + math.pi / 4
    distance, height = CAMERA
    origin = torch.stack(
        [-distance * around.cos(), -distance * around.sin(), torch.full_like(around, height)], -1
    )
    forward = unit(torch.tensor([0.0, 0.0, TARGET], dtype=angles.dtype) - origin)
    right = unit(torch.linalg.cross(forward, torch.tensor([[0.0, 0.0, 1.0]], dtype=angles.dtype)))
    up = torch.linalg.cross(right, forward)
    steps = size * SAMPLES
    offset = (2 * torch.arange(steps, dtype=angles.dtype) + 1) / steps - 1
    x, y = (math.tan(VIEW / 2) * g.flatten()[:, None] for g in _plane(offset))
    direction = forward[:, None] + x * right[:, None] - y * up[:, None]
    return View(origin[:, None], unit(direction))


def _plane(offset: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) to (N, N) x, which grows to the right, and y, which grows downwards."""
    y, x = torch.meshgrid(offset, offset, indexing="ij")
    return x, y


def _nearest(*hits: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    distance, normal = hits[0]
    for other, facing in hits[1:]:
        closer = other < distance
        distance = torch.where(closer, other, distance)
        normal = torch.where(closer[..., None], facing, normal)
    return distance, normal


def ball(centre: float, radius: float) -> Cast:
    """A sphere with its centre at this height."""

    def cast(origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        away = origin - torch.tensor([0.0, 0.0, centre], dtype=origin.dtype)
        half = dot(away, direction)
        distance = _root(half.square() - dot(away, away) + radius**2, half)
        return distance, (away + distance[..., None] * direction) / radius

    return cast


def _root(square: Tensor, half: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """The nearer solution of a quadratic in front of the ray, infinite where there is none."""
    distance = (-half - square.clamp(min=0).sqrt()) / scale
    return torch.where((square > 0) & (distance > 0), distance, math.inf)


def tube(low: float, high: float, radius: float) -> Cast:
    """The side of an upright cylinder."""

    def cast(origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        o, d = origin[..., :2], direction[..., :2]
        flat, half = dot(d, d), dot(o, d)
        distance = _root(half.square() - flat * (dot(o, o) - radius**2), half, flat)
        height = origin[..., 2] + distance * direction[..., 2]
        distance = torch.where((height >= low) & (height <= high), distance, math.inf)
        return distance, F.pad((o + distance[..., None] * d) / radius, (0, 1))

    return cast


def lid(height: float, radius: float) -> Cast:
    """A level disc."""

    def cast(origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        distance = (height - origin[..., 2]) / direction[..., 2]
        across = (origin + distance[..., None] * direction)[..., :2]
        within = (distance > 0) & (dot(across, across) <= radius**2)
        distance = torch.where(within, distance, math.inf)
        return distance, torch.tensor([0.0, 0.0, 1.0], dtype=origin.dtype).expand(direction.shape)

    return cast


def box(half: float) -> Cast:
    """A cube on the floor, its sides along the walls."""

    def cast(origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        away = origin - torch.tensor([0.0, 0.0, half], dtype=origin.dtype)
        near = (-away - half * direction.sign()) / direction
        far = (-away + half * direction.sign()) / direction
        distance, axis = near.max(-1)
        distance = torch.where((distance > 0) & (distance < far.amin(-1)), distance, math.inf)
        return distance, -direction.sign() * F.one_hot(axis, 3).to(direction.dtype)

    return cast


def union(*parts: Cast) -> Cast:
    """The first of several surfaces that a ray meets."""
    return lambda origin, direction: _nearest(*(part(origin, direction) for part in parts))


SOLIDS: tuple[Cast, ...] = (
    box(0.5),
    union(tube(0.0, 1.05, 0.52), lid(1.05, 0.52)),
    ball(0.6, 0.6),
    union(tube(0.42, 0.93, 0.42), ball(0.93, 0.42), ball(0.42, 0.42)),
)
"""Cube, cylinder, sphere and capsule, each about one unit wide."""


def shadow(cast: Cast, dtype: torch.dtype) -> Tensor:
    """(2, MAP, MAP) how much of the light and of the sky reaches the floor around a solid."""
    offset = REACH * torch.linspace(-1, 1, MAP, dtype=dtype)
    x, y = _plane(offset)
    floor = torch.stack([x, y, torch.full_like(x, 1e-4)], -1)[..., None, :]
    return torch.stack(
        [
            cast(floor, rays.expand(MAP, MAP, *rays.shape))[0].isinf().to(dtype).mean(-1)
            for rays in (_sun(dtype), _sky(dtype))
        ]
    )


def _spiral(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """n points spread evenly over a disc of radius one."""
    k = torch.arange(n, dtype=dtype)
    radius, angle = ((k + 0.5) / n).sqrt(), k * math.pi * (3 - math.sqrt(5))
    return radius * angle.cos(), radius * angle.sin()


def _sun(dtype: torch.dtype) -> Tensor:
    """(N, 3) directions to points of a broad light."""
    x, y = _spiral(32, dtype)
    return unit(torch.tensor(SUN, dtype=dtype) + 0.22 * torch.stack([x, y, 0 * x], -1))


def _sky(dtype: torch.dtype) -> Tensor:
    """(N, 3) directions upwards, denser where they count more for a level floor."""
    x, y = _spiral(48, dtype)
    return torch.stack([x, y, (1 - x * x - y * y).sqrt()], -1)


def brightness(normal: Tensor, sun: Tensor | float = 1.0, sky: Tensor | float = 1.0) -> Tensor:
    """(..., 3) normals to the brightness of a dull surface, at most one."""
    towards = unit(torch.tensor(SUN, dtype=normal.dtype))
    facing = (normal @ towards).clamp(min=0)
    return 0.42 * facing * sun + (0.52 + 0.06 * normal[..., 2]) * sky


def gloss(normal: Tensor, direction: Tensor) -> Tensor:
    """The white spot where a smooth surface mirrors the light."""
    towards = unit(torch.tensor(SUN, dtype=normal.dtype))
    mirrored = direction - 2 * dot(direction, normal)[..., None] * normal
    return 0.22 * (mirrored @ towards).clamp(min=0) ** 24


@dataclass(frozen=True)
class Room:
    """What every view shows before a solid is put into the room."""

    weights: Tensor  # (O, R, 4) of the colours
    place: Tensor  # (O, R, 2) on the floor
    on_floor: Tensor  # (O, R)
    near: Tensor  # (R,) rays that may meet a solid; the same in all views, which go around it


def room(view: View) -> Room:
    """The empty room."""
    o, d = view.origin, view.direction
    side = torch.where(d[..., :2] > 0, (WALL - o[..., :2]) / d[..., :2], math.inf)
    wall, axis = side.min(-1)
    down = torch.where(d[..., 2] < 0, -o[..., 2] / d[..., 2], math.inf)
    place = o + torch.minimum(wall, down)[..., None] * d
    on_floor, in_sky = down < wall, place[..., 2] > HEIGHT
    normal = F.pad(-F.one_hot(axis, 2).to(d.dtype), (0, 1))
    # Less light gathers in corners, which lets the eye see where planes meet.
    nook = (1 - 0.16 * torch.exp(-3 * (WALL - place[..., :2]).clamp(min=0))).prod(-1)
    skirting = 1 - 0.16 * torch.exp(-3 * place[..., 2].clamp(min=0))
    weights = torch.zeros(*d.shape[:-1], 4, dtype=d.dtype)
    weights[..., FLOOR] = torch.where(on_floor, 0.95 * nook, 0)
    weights[..., WALLS] = torch.where(
        on_floor | in_sky, 0, 1.18 * brightness(normal) * nook * skirting
    )
    weights[..., WHITE] = torch.where(in_sky, 0.97, 0)
    near = ball(0.65, 1.1)(o[0], d[0])[0].isfinite()
    return Room(weights, place[..., :2], on_floor, near)


def solid(view: View, cast: Cast, scale: float) -> tuple[Tensor, Tensor]:
    """Where a solid is seen (O, R), and its colour weights (O, R, 4)."""
    distance, normal = cast(view.origin / scale, view.direction)
    seen = distance.isfinite()
    normal = torch.where(seen[..., None], normal, 0)
    height = view.origin[..., 2] + scale * torch.where(seen, distance, 0) * view.direction[..., 2]
    contact = 1 - 0.35 * torch.exp(-6 * height.clamp(min=0)) * (normal[..., 2] < 0.5)
    spot = gloss(normal, view.direction)
    weights = torch.zeros(*seen.shape, 4, dtype=distance.dtype)
    weights[..., SOLID] = brightness(normal, sky=contact) * (1 - spot)
    weights[..., WHITE] = spot
    return seen, weights


def add_solid(empty: Room, view: View, cast: Cast, dark: Tensor, scale: float) -> Tensor:
    """(O, R, 4) colour weights of the room with a solid in it and its shadow on the floor."""
    around = (empty.place / (REACH * scale))[None]
    sun, sky = F.grid_sample(dark[None], around, padding_mode="border", align_corners=True)[0]
    light = torch.where(empty.on_floor, 0.45 + 0.3 * sun + 0.25 * sky, 1)
    weights = empty.weights * light[..., None]
    seen, surface = solid(View(view.origin, view.direction[:, empty.near]), cast, scale)
    weights[:, empty.near] = torch.where(seen[..., None], surface, weights[:, empty.near])
    return weights


def pixels(weights: Tensor, size: int) -> Tensor:
    """(O, R, 4) of rays to (O, 4, size * size) bytes, rounded down so that they stay below 256."""
    rows = weights.view(-1, size, SAMPLES, size, SAMPLES * 4).sum(2)
    grid = rows.view(-1, size, size, SAMPLES, 4).sum(3) / SAMPLES**2
    return (255 * grid).floor().to(torch.uint8).flatten(1, 2).mT.contiguous()
