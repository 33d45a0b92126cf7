"""Painting faces from numbers: soft shapes, back to front, all faces of a batch at once.

The picture is a square from -1 to 1, x to the right and y down. A head is an egg that turns under
the light: what is painted on it sits at places of the unturned face, which `Face.across` and
`Face.down` give for every pixel. Traits are numbers of shape (B, 1, 1), masks are (B, H, W),
colours (B, 3, 1, 1) or (B, 3, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

EYES, BROWS, NOSE, MOUTH = -0.05, -0.175, 0.235, 0.395  # heights in an average face
CROWN, CHIN, WIDEST = -0.71, 0.67, -0.07
TURN = 6.2832
SKIN = [
    (1.0, 0.86, 0.77),
    (0.97, 0.78, 0.66),
    (0.90, 0.69, 0.55),
    (0.78, 0.56, 0.42),
    (0.58, 0.39, 0.28),
    (0.40, 0.26, 0.19),
]
CLAY = (0.80, 0.72, 0.66)
IRIS = [(0.25, 0.14, 0.08), (0.36, 0.22, 0.12), (0.35, 0.38, 0.22), (0.32, 0.48, 0.62)]
RED = [(0.44, 0.14, 0.08), (0.72, 0.34, 0.16)]
HAIR = {
    "black hair": [(0.05, 0.045, 0.05), (0.10, 0.085, 0.08)],
    "brown hair": [(0.21, 0.14, 0.09), (0.36, 0.25, 0.16)],
    "blond hair": [(0.80, 0.62, 0.36), (0.95, 0.84, 0.60)],
    "grey hair": [(0.58, 0.58, 0.60), (0.84, 0.84, 0.86)],
}
FRAMES = [(0.05, 0.05, 0.06), (0.16, 0.08, 0.05), (0.34, 0.09, 0.10)]
Colour = tuple[float, float, float]
Number = Tensor | float


def bell(square: Tensor) -> Tensor:
    """A bump over the square of a distance, cut off where numbers become too small to be fast."""
    return torch.exp(-0.5 * square.clamp(max=60))


def smooth(low: Number, high: Number, x: Tensor) -> Tensor:
    """From 0 at `low` to 1 at `high`, without a kink; `low` may be the larger one."""
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def blob(x: Tensor, y: Tensor, wide: Number, tall: Number) -> Tensor:
    """A soft spot."""
    return bell((x / wide).square() + (y / tall).square())


def length(x: Tensor, y: Tensor) -> Tensor:
    return (x.square() + y.square() + 1e-9).sqrt()


def power_norm(x: Tensor, y: Tensor, power: Number) -> Tensor:
    """A distance whose circles are more square the higher the power; x and y not negative."""
    return (x**power + y**power + 1e-9) ** (1 / power)


def flat_colour(colour: Colour) -> Tensor:
    """(3, 1, 1)"""
    return torch.tensor(colour, dtype=torch.float32)[:, None, None]


def ramp(stops: list[Colour], place: Tensor) -> Tensor:
    """(B, 1, 1) places from 0 to 1 to (B, 3, 1, 1) colours between these stops."""
    colours = torch.tensor(stops)
    at = place.flatten().clamp(0, 1) * (len(stops) - 1)
    low = at.floor().long().clamp(max=len(stops) - 2)
    return torch.lerp(colours[low], colours[low + 1], (at - low)[:, None])[:, :, None, None]


def hue(angle: Tensor, saturation: Number, value: Number) -> Tensor:
    """(B, 1, 1) hue, saturation and value, each from 0 to 1, to (B, 3, 1, 1) colours."""
    wave = ((angle[:, None] + flat_colour((0, 2 / 3, 1 / 3))) % 1 * 6 - 3).abs().sub(1).clamp(0, 1)
    s, v = (torch.as_tensor(n).expand_as(angle)[:, None] for n in (saturation, value))
    return v * (1 - s + s * wave)


def tint(colour: Tensor, tone: Tensor) -> Tensor:
    """A colour lighter or darker from pixel to pixel."""
    return colour * tone[:, None]


@dataclass
class Canvas:
    """Colours that are painted over."""

    rgb: Tensor  # (B, 3, H, W)

    def paint(self, mask: Tensor, colour: Tensor) -> None:
        """Cover with a colour where the mask is one."""
        self.rgb = torch.lerp(self.rgb, colour.expand_as(self.rgb), mask[:, None])

    def dim(self, mask: Tensor, by: Number) -> None:
        """Darken where the mask is one."""
        self.rgb = self.rgb * (1 - mask * by)[:, None]


@dataclass(frozen=True)
class Lips:
    """A mouth: place along it, from -1 to 1, and below its line; upper and lower edges."""

    x: Tensor
    y: Tensor
    gap_top: Tensor
    gap_end: Tensor
    top: Tensor
    end: Tensor


@dataclass(frozen=True)
class Face:
    """A batch of faces on a grid of pixels."""

    traits: Mapping[str, Tensor]
    size: int
    scan: bool = False

    def __getitem__(self, name: str) -> Tensor:
        return self.traits[name]

    def __len__(self) -> int:
        return len(self["x"])

    def only(self, who: Tensor) -> Face:
        """Some of the faces."""
        return replace(self, traits={name: v[who] for name, v in self.traits.items()})

    def edge(self, distance: Tensor) -> Tensor:
        """One inside, zero outside, mixed over a pixel where the distance is zero."""
        return (0.5 - distance * self["zoom"] * self.size / 2).clamp(0, 1)

    def line(self, distance: Tensor, half: Number) -> Tensor:
        """A stroke of this half width around distance zero, fainter below a pixel."""
        return self.edge(distance.abs() - half) * (half * self["zoom"] * self.size).clamp(max=1)

    @cached_property
    def frame(self) -> tuple[Tensor, Tensor]:
        """(H, W) x and y of the pixels of the picture."""
        steps = (2 * torch.arange(self.size) + 1) / self.size - 1
        y, x = torch.meshgrid(steps, steps, indexing="ij")
        return x, y

    @cached_property
    def body(self) -> tuple[Tensor, Tensor]:
        """x and y seen from the middle of the head, upright."""
        x, y = self.frame
        return (x - self["x"]) / self["zoom"], (y - self["y"]) / self["zoom"]

    @cached_property
    def head(self) -> tuple[Tensor, Tensor]:
        """x and y seen from the middle of the head, tilted with it about the neck."""
        x, y = self.body
        cos, sin = self["roll"].cos(), self["roll"].sin()
        y = y - 0.35
        return x * cos + y * sin, y * cos - x * sin + 0.35

    @cached_property
    def wide(self) -> Tensor:
        return 0.435 * self["width"]

    def egg(self, more: float) -> Tensor:
        """From 0 in the middle of the head to 1 on its outline, or so much further out."""
        x, y = self.head
        y = y - WIDEST
        up, down = WIDEST - CROWN + more, (CHIN - WIDEST) * self["chin"] + more
        power = torch.where(y < 0, 2.15, self["jaw"])
        wide = (self.wide + more) * (1 - 0.10 * smooth(0.0, 0.6, y))
        return power_norm(x.abs() / wide, torch.where(y < 0, -y / up, y / down), power)

    @cached_property
    def radius(self) -> Tensor:
        return self.egg(0.0)

    @cached_property
    def shape(self) -> Tensor:
        """One on the head."""
        return self.edge((self.radius - 1) * 0.5)

    @cached_property
    def dome(self) -> Tensor:
        """How far the head comes towards the eye, from 0 to 1."""
        return (1 - self.radius.square()).clamp(min=0).sqrt()

    @cached_property
    def turned(self) -> Tensor:
        return self["yaw"].sin()

    @cached_property
    def across(self) -> Tensor:
        """x on the unturned face."""
        return self.head[0] * self["yaw"].cos() - 0.42 * self.dome * self.turned

    @cached_property
    def down(self) -> Tensor:
        """y on the unturned face."""
        return self.head[1] + 0.45 * self.dome * self["pitch"].sin()

    @cached_property
    def aside(self) -> Tensor:
        """Distance from the middle of the unturned face."""
        return self.across.abs()

    @cached_property
    def nose_x(self) -> Tensor:
        """x on the nose, which stands out and so turns further."""
        return self.across - 0.14 * self.turned * smooth(BROWS, NOSE, self.down)

    @cached_property
    def nose_end(self) -> Tensor:
        return NOSE + (self["nose length"] - 1) / 3

    @cached_property
    def mouth_y(self) -> Tensor:
        return MOUTH + 0.6 * (self.nose_end - NOSE) + 0.37 * (self["chin"] - 1)

    @cached_property
    def gap(self) -> Tensor:
        """From the middle of the face to the middle of an eye."""
        return 0.185 * self["eye gap"] * (0.6 + 0.4 * self["width"])

    @cached_property
    def eye(self) -> Tensor:
        """Half the width of an eye."""
        return 0.088 * self["eye size"]

    @cached_property
    def eye_x(self) -> Tensor:
        """From -1 in the inner corner of an eye to 1 in the outer one."""
        return (self.aside - self.gap) / self.eye

    @cached_property
    def eye_y(self) -> Tensor:
        return (self.down - EYES) / self.eye

    @cached_property
    def skin(self) -> Tensor:
        tone = ramp(SKIN, self["skin"] ** 1.4)
        return torch.lerp(tone, flat_colour(CLAY).expand_as(tone), 0.5) if self.scan else tone

    @cached_property
    def hair(self) -> Tensor:
        """(B, 3, 1, 1) colour of the hair; red where it is nothing else."""
        colour = ramp(RED, self["hair shade"])
        for name, stops in HAIR.items():
            colour = torch.lerp(colour, ramp(stops, self["hair shade"]), self[name][:, None])
        return colour

    @cached_property
    def hair_colour(self) -> Tensor:
        return hair_colour(self)

    @cached_property
    def mane(self) -> Tensor:
        return mane(self)

    @cached_property
    def opening(self) -> Tensor:
        return opening(self)

    @cached_property
    def lips(self) -> Lips:
        return lips(self)

    @cached_property
    def hat_line(self) -> Tensor:
        """y where a hat ends."""
        bow = 0.10 * (self.head[0] / self.wide).square().clamp(max=1.2)
        return bow - 0.35 - 0.25 * self["pitch"].sin()


Part = Callable[[Face, Canvas], None]


def only_with(name: str, part: Part) -> Part:
    """Paint only those faces that have an attribute."""

    def paint_some(face: Face, canvas: Canvas) -> None:
        who = face[name].flatten().nonzero().flatten()
        if len(who):
            some = Canvas(canvas.rgb[who])
            part(face.only(who), some)
            canvas.rgb = canvas.rgb.index_copy(0, who, some.rgb)

    return paint_some


def bumps(face: Face) -> tuple[Tensor, Tensor]:
    """Slopes of what stands out of the egg, or is sunk into it, towards the right and down."""
    x, y, n, wing = face.across, face.down, face.nose_x, face["nose width"]
    smile, men = face["smiling"], 1 - face["female"]
    middle = (  # x, y, width, height, how far it stands out
        (n, y - face.nose_end + 0.03, 0.05 * wing, 0.055, 0.075),
        (n, y - 0.08, 0.034 * wing, 0.12, 0.055),
        (x, y - CHIN * face["chin"] + 0.09, 0.1, 0.06, 0.022),
        (x, y - face.mouth_y - 0.045, 0.11, 0.03, 0.02),
        (x, y - face.mouth_y - 0.1, 0.09, 0.025, -0.016),
    )
    sides = (
        (face.aside - 0.075 * wing, y - face.nose_end + 0.005, 0.022, 0.028, 0.014),
        (face.aside - face.gap, y - EYES, 0.085, 0.05, -0.035),
        (face.aside - face.gap, y - BROWS + 0.01, 0.11, 0.04, 0.007 + 0.022 * men),
        (face.aside - 0.235, y - 0.17 + 0.03 * smile, 0.085, 0.08, 0.02 + 0.022 * smile),
    )
    right, down = torch.zeros_like(x), torch.zeros_like(x)
    for parts, side in ((middle, 1), (sides, x.sign())):
        for dx, dy, wide, tall, height in parts:
            rise = height * blob(dx, dy, wide, tall)
            right = right - side * dx / wide**2 * rise
            down = down - dy / tall**2 * rise
    return right, down


def light(face: Face) -> tuple[Tensor, Tensor]:
    """(B, 3, H, W) light that the skin throws back, and (B, H, W) what it mirrors."""
    x, y = face.head
    right, down = bumps(face)
    nx, ny, nz = x / face.wide - right, 1.14 * (y - WIDEST) - down, face.dome + 0.22
    size = (nx * nx + ny * ny + nz * nz).sqrt()
    facing = (nx * face["light x"] + ny * face["light y"] + nz * face["light z"]) / size
    wrap = flat_colour((0.42, 0.30, 0.26))  # light goes further around in red, as through skin
    diffuse = ((facing[:, None] + wrap) / (1 + wrap)).clamp(min=0)
    fill = face["fill"][:, None]
    mirrored = (2 * facing * nz / size - face["light z"]).clamp(min=0) ** 14
    return fill + (1.04 - fill) * diffuse, mirrored


def background(face: Face) -> Canvas:
    """An even colour behind scans, blurred lights behind photographs."""
    if face.scan:
        even = hue(torch.full_like(face["x"], 0.6), 0.04, 0.25 + 0.65 * face["backdrop"])
        return Canvas(even.expand(len(face), 3, face.size, face.size))
    u, v = face.frame
    h, s, d = (face[name] for name in ("backdrop", "backdrop depth", "backdrop light"))
    near = hue(h, 0.14 + 0.45 * s, 0.15 + 0.75 * d)
    far = hue((h + 0.06) % 1, 0.08 + 0.38 * s, 0.4 + 0.55 * d)
    turn = TURN * face["backdrop turn"]
    slope = smooth(-1.2, 1.2, u * turn.cos() + v * turn.sin())
    canvas = Canvas(torch.lerp(near, far, slope[:, None]))
    for k, shade in enumerate((0.6 * near, far, 0.6 * near)):
        x, y = 1.1 * (1.7 * (k + 1) * turn).cos(), 0.9 * (2.3 * (k + 2) * turn).sin() - 0.2
        wide = 0.35 + 0.2 * ((k + 3) * turn).sin()
        canvas.paint(0.35 * smooth(1.5, 0.5, length(u - x, v - y) / wide), shade)
    return canvas


def neck(face: Face, canvas: Canvas) -> None:
    x, y = face.body
    half = 0.245 - 0.045 * face["female"] + 0.1 * smooth(0.6, 0.95, y)
    t = (x / half).clamp(-1, 1)
    tone = 0.82 + 0.25 * face["light x"] * t - 0.29 * t.square()
    tone = tone * (1 - 0.45 * smooth(0.95, 0.6, y))
    mask = face.edge(x.abs() - half) * face.edge(0.2 - y)
    if face.scan:
        mask = mask * face.edge(y - 0.96 + 1.1 * x.square())
    canvas.paint(mask, tint(face.skin, tone))


def clothes(face: Face, canvas: Canvas) -> None:
    if face.scan:
        return
    x, y = face.body
    f = face["female"]
    top = 0.66 + 0.04 * f + 0.16 * (x.abs() / (0.75 - 0.08 * f)) ** 2.4
    deep = 0.84 + face["neckline"] * (0.1 + 0.15 * f) - 0.16 * (x / 0.3).square().clamp(max=2.0)
    bare = face.edge(x.abs() - 0.36) * face.edge(y - deep)
    cloth = hue(face["clothes"], 0.75 * face["clothes depth"], 0.12 + 0.75 * face["clothes light"])
    lit = 0.82 + 0.18 * smooth(-0.9, 0.9, x * face["light x"].sign())
    seam = bell(((y - top) / 0.06).square())
    canvas.paint(face.edge(top - y) * (1 - bare), tint(cloth, lit - 0.18 * seam))


def ears(face: Face, canvas: Canvas) -> None:
    x, y = face.head
    dx = (x.abs() - face.wide - 0.022 + 0.05 * face.turned.abs()) / 0.055
    r = length(dx, (y - 0.03 + 0.3 * face["pitch"].sin()) / 0.125)
    tone = 0.86 - 0.22 * bell(((r - 0.35) / 0.3).square()) + 0.25 * face["light x"] * x.sign()
    colour = face.skin * flat_colour((1.0, 0.93, 0.9))
    canvas.paint(face.edge((r - 1) * 0.06), tint(colour, tone.clamp(0.3, 1.1)))


def strands(face: Face, along: Tensor, across: Tensor) -> Tensor:
    """Light and dark of single locks, about one; clay has none."""
    if face.scan:
        return torch.ones_like(along)
    p = TURN * face["hair seed"]
    wave = (31 * across + p + 2 * (5 * along + p).sin()).sin()
    fine = (67 * across + 2.3 * p + 1.5 * (9 * along).sin()).sin()
    broad = (9 * across + 3.1 * p + 2 * along).sin()
    return 1 + 0.10 * wave + 0.07 * fine + 0.12 * broad


def mane(face: Face) -> Tensor:
    """Negative inside all of the hair."""
    x, y = face.head
    p, long, wave = TURN * face["hair seed"], face["long hair"], face["hair wave"]
    volume, middle = face["hair volume"], -0.12
    wide = face.wide + 0.02 + 0.02 * long + volume * (0.025 + 0.07 * long)
    tuft = (1 - long) * bell(((x - 0.25 * face["part"]) / 0.22).square())
    top = CROWN - 0.03 - 0.08 * volume - 0.05 * tuft * wave
    upper = power_norm(x.abs() / wide, (middle - y).clamp(min=0) / (middle - top), 2.2)
    fall = (0.05 + 0.1 * wave) * smooth(-0.2, 0.8, y)
    curl = 0.03 * wave * (9 * y + p).sin() * smooth(0.0, 0.5, y)
    cropped = -0.09 * smooth(-0.12, 0.14, y)
    spread = wide + torch.where(long > 0, fall + curl, cropped)
    low = torch.lerp(0.16 * face["hair length"], 0.35 + 0.9 * face["hair length"], long)
    lower = power_norm(x.abs() / spread, (y - middle).clamp(min=0) / (low - middle), 4.0)
    outline = (torch.where(y < middle, upper, lower) - 1) * wide
    return outline if face.scan else outline + 0.004 * (0.3 + wave) * ragged(x, y, p)


def ragged(x: Tensor, y: Tensor, p: Tensor) -> Tensor:
    """Uneven ends around the head."""
    turn = torch.atan2(x, -y - 0.1)
    return (13 * turn + p).sin() + (29 * turn + 3 * p + 2 * (7 * turn).sin()).sin()


def opening(face: Face) -> Tensor:
    """Negative where the hair leaves the face free."""
    x, y = face.across, face.down
    long, fringe, p = face["long hair"], face["fringe"], 9 * face["hair seed"]
    line = -0.44 + 0.07 * face["hairline"] + 0.22 * fringe
    line = line - 0.07 * face["old"] * (1 - face["female"])
    parted = (0.06 + 0.18 * long) * (1 - fringe) * (x - 0.22 * face["part"]).abs()
    y = y - parted + 0.03 * fringe * (40 * x + p).sin()
    burns = 0.89 + 0.16 * smooth(-0.22, 0.05 + 0.1 * face["curtain"], y)
    half = face.wide * torch.lerp(burns, 0.93 - 0.10 * face["curtain"], long)
    if not face.scan:
        y = y + 0.007 * (1 - long) * ((38 * x + p).sin() + (61 * x).sin())
    middle, power = 0.02, 3.8 - 1.2 * long + 1.5 * fringe
    side = half + torch.where(y > middle, 0.10 * long * smooth(0.1, 0.8, y), 0)
    tall = (middle - y).clamp(min=0) / (middle - line)
    return (power_norm(x.abs() / side, tall, power) - 1) * half


def hair_colour(face: Face) -> Tensor:
    """(B, 3, H, W) locks that fall from the parting, round under the light, with a gloss."""
    x, y = face.head
    parting = x - 0.22 * face["part"] * smooth(0.0, -0.5, y)
    hanging = smooth(-0.35, 0.25, y)
    across = torch.lerp(0.8 * torch.atan2(parting, (y + 0.62).clamp(min=0.02) + 0.25), x, hanging)
    along = torch.lerp(length(x, y + 0.6), y, hanging)
    r, side = face.egg(0.12), face["light x"] * x
    dome = (1 - 0.85 * r.square()).clamp(min=0.05).sqrt()
    facing = (0.55 * dome + 1.7 * side + 1.1 * face["light y"] * (y + 0.1)).clamp(-0.6, 1)
    gloss = bell(((r - 0.72) / 0.09).square()) * smooth(0.0, -0.3, y) * (1 + 2 * side).clamp(0, 1.5)
    tone = 0.55 + 0.45 * facing + 0.28 * gloss
    return tint(face.hair, tone * strands(face, along, across))


def visible_hair(face: Face) -> Tensor:
    """One where hair can be seen: not on the bald, and not under a hat."""
    return (1 - face["bald"]) * (1 - face["hat"] * face.edge(face.head[1] - face.hat_line))


def hair_back(face: Face, canvas: Canvas) -> None:
    canvas.paint(face.edge(face.mane) * visible_hair(face), 0.62 * face.hair_colour)


def hair_front(face: Face, canvas: Canvas) -> None:
    mask = face.edge(torch.maximum(face.mane, -face.opening)) * visible_hair(face)
    ends = 0.75 + 0.25 * smooth(0.95, 0.55, face.head[1])
    canvas.paint(mask, tint(face.hair_colour, ends))


def blush(face: Face, skin: Canvas) -> None:
    """Red cheeks, deep sockets, and the shadow of a shave."""
    f = face["female"]
    cheeks = blob(face.aside - 0.25, face.down - 0.17, 0.09, 0.07)
    warm = face.skin * flat_colour((1.02, 0.72, 0.68))
    skin.paint(cheeks * (0.10 + 0.10 * f + 0.06 * face["smiling"]), warm)
    socket = blob(face.aside - face.gap + 0.02, face.down - EYES + 0.02, 0.10, 0.06)
    skin.dim(socket, 0.16 + 0.12 * f)
    if not face.scan:
        jaw = smooth(0.22, 0.42, face.down) * (1 - f) * smooth(0.9, 0.2, face["skin"])
        skin.paint(0.22 * jaw, face.skin * flat_colour((0.72, 0.74, 0.76)))


def eyes(face: Face, skin: Canvas) -> None:
    """Both at once: everything but the gaze and the glint is the same on the two sides."""
    f, x, y = face["female"], face.eye_x, face.eye_y + face["eye tilt"] * face.eye_x
    arch = 1 - x.square()
    lid = y + (0.52 + 0.06 * f - 0.08 * face["old"]) * arch
    low = y - (0.34 - 0.12 * face["smiling"]) * arch
    open_ = face.edge(torch.maximum(-lid, low) * face.eye)
    crease = face.line((lid + 0.26 - 0.1 * x.square()) * face.eye, 0.008)
    skin.dim(crease * smooth(1.25, 0.8, x.abs()), 0.28)
    shadow = smooth(0.0, -0.45, lid) * smooth(-1.2, -0.3, lid) * smooth(1.3, 0.6, x.abs())
    skin.paint(0.35 * shadow * f * face["make-up"], face.skin * flat_colour((0.62, 0.5, 0.5)))
    skin.paint(open_, tint(flat_colour((0.95, 0.93, 0.91)), 0.72 + 0.28 * smooth(-0.5, 0.1, y)))
    irises(face, skin, open_, y)
    lash = face.line(lid * face.eye - 0.006, 0.009 + 0.007 * f) * smooth(1.12, 0.98, x.abs())
    skin.paint(lash * (0.75 + 0.2 * f), flat_colour((0.08, 0.05, 0.05)))
    skin.dim(face.line(low * face.eye, 0.005) * smooth(1.05, 0.9, x.abs()), 0.35)


def irises(face: Face, skin: Canvas, open_: Tensor, y: Tensor) -> None:
    side = face.across.sign()
    dx, dy = face.eye_x - face["gaze x"] * side, y + 0.06 - face["gaze y"]
    r = length(dx, dy)
    tone = 1.15 - 0.9 * smooth(0.3, 0.46, r)
    skin.paint(open_ * face.edge((r - 0.45) * face.eye), tint(ramp(IRIS, face["iris"]), tone))
    skin.paint(open_ * face.edge((r - 0.19) * face.eye), flat_colour((0.03, 0.02, 0.02)))
    glint = length(dx * side - 0.35 * face["light x"], dy + 0.17)
    skin.paint(0.9 * open_ * face.edge((glint - 0.10) * face.eye), flat_colour((1, 1, 1)))


def brows(face: Face, skin: Canvas) -> None:
    f, x = face["female"], (face.aside - face.gap - 0.01) / (1.38 * face.eye)
    bend = face["brow arch"] * (1 - (x - 0.25).square())
    middle = BROWS + 0.027 - 0.03 * face["brow height"] - bend
    half = (0.028 - 0.010 * f) * face["brow weight"] * (1 - 0.6 * smooth(0.0, 1.0, x))
    mask = face.edge((face.down - middle).abs() - half)
    mask = mask * smooth(-1.1, -0.85, x) * smooth(1.12, 0.9, x) * (0.88 - 0.12 * f)
    skin.paint(mask, 0.42 * face.hair + 0.02)


def nose(face: Face, skin: Canvas) -> None:
    x, y, wing = face.nose_x, face.down - face.nose_end, face["nose width"]
    side = face["light x"]
    ridge = smooth(-0.30, -0.05, y) * smooth(0.04, 0.0, y)
    away = bell(((x + side.sign() * 0.055 * wing) / 0.026).square())
    skin.dim(away * ridge, 0.10 + 0.35 * side.abs())
    wings = bell(((x.abs() - 0.062 * wing) / 0.02).square())
    skin.dim(wings * smooth(-0.07, -0.01, y) * smooth(0.035, 0.01, y), 0.16)
    skin.dim(blob(x, y - 0.022, 0.07 * wing, 0.014), 0.32)
    nostril = blob(x.abs() - 0.034 * wing, y - 0.3 * x.abs() + 0.004, 0.017, 0.009)
    skin.paint(0.7 * nostril, face.skin * flat_colour((0.28, 0.18, 0.16)))
    skin.dim(blob(x, y - 0.075, 0.02, 0.03), 0.10)


def lips(face: Face) -> Lips:
    smile, open_ = face["smiling"], face["mouth open"]
    half = 0.135 * face["mouth width"] * (1 + 0.36 * smile)
    x = (face.across - 0.05 * face.turned) / half
    y = face.down - face.mouth_y + (0.070 * smile + 0.010) * x.square() - 0.018 * smile
    arch = (1 - x.square()).clamp(min=-0.5)
    gap = (0.012 * open_ + smile * (0.036 + 0.044 * open_)) * arch
    full = face["lips"] * (1 + 0.22 * face["female"] - 0.22 * smile - 0.15 * face["old"])
    bow = (1 - 0.3 * bell((x / 0.13).square())) * (1 - 0.15 * x.square())
    top = 0.35 * gap + 0.034 * full * arch * bow
    return Lips(x, y, 0.35 * gap, 0.65 * gap, top, 0.65 * gap + 0.046 * full * arch)


def mouth(face: Face, skin: Canvas) -> None:
    f, smile, m = face["female"], face["smiling"], face.lips
    red = face.skin * flat_colour((0.86, 0.59, 0.56))
    stick = hue((0.97 + 0.05 * face["lipstick"]) % 1, 0.72, 0.72 - 0.25 * face["skin"])
    colour = torch.lerp(red, stick, (0.75 * f * face["make-up"])[:, None])
    wet = blob(m.x, m.y - m.gap_end - 0.018, 0.35, 0.010)
    tone = 1 - 0.14 * smooth(0.0, -0.02, m.y) + 0.12 * wet
    mask = face.edge(torch.maximum(-m.y - m.top, m.y - m.end)) * (m.x.abs() < 1.05)
    skin.paint(mask * (0.75 + 0.2 * f), tint(colour, tone))
    inside = face.edge(torch.maximum(-m.y - m.gap_top, m.y - m.gap_end)) * (m.x.abs() < 1)
    inside = inside * (smile + face["mouth open"]).clamp(max=1)
    skin.paint(inside, flat_colour((0.25, 0.08, 0.08)))
    teeth = inside * face.edge(m.y - 0.55 * m.gap_end) * smooth(0.98, 0.75, m.x.abs())
    white = tint(flat_colour((0.96, 0.94, 0.90)), (1 - 0.25 * m.x.square()).clamp(min=0.6))
    skin.paint(0.95 * teeth, white)
    closed = face.line(m.y, 0.006) * smooth(1.06, 0.9, m.x.abs()) * (1 - inside)
    skin.paint(0.75 * closed, face.skin * flat_colour((0.42, 0.22, 0.2)))
    skin.dim(blob(m.x.abs() - 1.03, m.y, 0.07, 0.016), 0.25 + 0.15 * smile)
    skin.dim(blob(m.x, m.y - m.end - 0.02, 0.6, 0.014), 0.14)


def cheek_folds(face: Face, skin: Canvas) -> None:
    """From the nose to the corners of the mouth, deeper in a smile and with age."""
    t = (face.down - face.nose_end + 0.02) / 0.19
    where = 0.088 + 0.085 * t.clamp(0, 1) ** 0.8 + 0.02 * face["smiling"]
    mask = bell(((face.aside - where) / 0.014).square())
    mask = mask * smooth(-0.05, 0.15, t) * smooth(1.05, 0.75, t)
    skin.dim(mask, 0.10 + 0.20 * face["smiling"] + 0.34 * face["old"])


def wrinkles(face: Face, skin: Canvas) -> None:
    x, y = face.across, face.down
    lines = torch.zeros_like(y)
    for k, height in enumerate((-0.40, -0.335, -0.27)):
        wave = 0.012 * (9 * x + 2.1 * k + 6 * face["hair seed"]).sin()
        lines = lines + bell(((y - height - wave) / 0.010).square())
    skin.dim(lines * smooth(0.30, 0.18, face.aside), 0.42)
    skin.dim(blob(face.aside - 0.03, y - BROWS, 0.007, 0.04), 0.25)
    bag = face.eye_y - 0.75 * (1 - (0.8 * face.eye_x).square())
    skin.dim(bell((bag / 0.13).square()) * smooth(1.15, 0.8, face.eye_x.abs()), 0.42)
    out = face.eye_x - 1.05
    feet = (12 * torch.atan2(face.eye_y, out.clamp(min=0.01))).cos().square()
    fan = smooth(0.0, 0.15, out) * smooth(0.8, 0.3, out) * smooth(0.75, 0.35, face.eye_y.abs())
    skin.dim(feet * fan, 0.28)
    skin.dim(blob(face.aside - 0.27, y - 0.29, 0.05, 0.08), 0.18)
    jowl = bell(((face.aside - 0.20) / 0.018).square())
    skin.dim(jowl * smooth(0.40, 0.46, y) * smooth(0.60, 0.5, y), 0.22)


def whiskers(face: Face) -> Tensor:
    """One where a beard grows on the face."""
    m, y = face.lips, face.down
    line = 0.345 - 0.37 * ((face.aside - 0.09).clamp(min=0) / 0.33) ** 2.2
    under_nose = smooth(0.02, 0.045, y - face.nose_end - 0.6 * face.aside.square())
    moustache = under_nose * smooth(0.25, 0.17, face.aside)
    lip = face.edge(torch.maximum(-m.y - m.top, m.y - m.end) - 0.006) * (m.x.abs() < 1.1)
    return torch.maximum(smooth(-0.05, 0.05, y - line), moustache) * (1 - lip)


def beard(face: Face, skin: Canvas) -> None:
    x, y = face.across, face.down
    locks = strands(face, 1.7 * x, y + 1.6 * x) + strands(face, 1.3 * y, 1.4 * x + 0.3 * y)
    # Darker than the hair on the head, but still light on those of light hair and dark skin.
    shade = 0.6 + 0.18 * (face["blond hair"] + face["grey hair"])
    colour = face.hair * shade[:, None]
    skin.paint(whiskers(face) * (0.86 + 0.1 * face["beard length"]), tint(colour, 0.5 * locks))


def chin_beard(face: Face, canvas: Canvas) -> None:
    """The part of a beard that hangs below the chin."""
    x, y = face.head
    more = (0.01 + 0.13 * face["beard length"]) * smooth(0.25, 0.62, y)
    mask = face.edge((face.radius - 1) * 0.6 - more) * smooth(0.2, 0.35, y)
    canvas.paint(mask, tint(face.hair, 0.32 + 0.12 * strands(face, y, 1.2 * x)))


def head(face: Face, canvas: Canvas) -> None:
    """Skin and all that is on it, under the light."""
    skin = Canvas(face.skin.expand(len(face), 3, face.size, face.size))
    old, bearded = only_with("old", wrinkles), only_with("beard", beard)
    for part in (blush, cheek_folds, old, nose, eyes, mouth, brows, bearded):
        part(face, skin)
    lit, mirrored = light(face)
    hairline = bell((face.opening.clamp(max=0) / 0.05).square()) * smooth(0.1, -0.1, face.down)
    shadow = 1 - 0.30 * (1 - face["bald"]) * hairline
    shine = 0.13 + 0.14 * face["bald"] * smooth(-0.2, -0.4, face.down)
    shine = shine * (1 - 0.7 * face["beard"] * smooth(0.2, 0.35, face.down))
    canvas.paint(face.shape, skin.rgb * lit * shadow[:, None] + (shine * mirrored)[:, None])


def hat_shadow(face: Face, canvas: Canvas) -> None:
    below = face.head[1] - face.hat_line
    canvas.dim(bell((below / 0.10).square()) * smooth(-0.02, 0.02, below) * face.shape, 0.45)


def hat(face: Face, canvas: Canvas) -> None:
    """A knitted hat, a cap with a visor or a hat with a brim."""
    (x, y), line, style = face.head, face.hat_line, face["hat style"]
    cap, brimmed = ((style > 0.4) & (style < 0.7)).float(), (style >= 0.7).float()
    wide, high = face.wide + 0.065, 0.50 + 0.1 * face["hat height"] + 0.04 * brimmed
    r = power_norm(x.abs() / wide, (-0.34 - y).clamp(min=0) / high, 2.5)
    dome = (1 - 0.9 * r.square()).clamp(min=0).sqrt()
    tone = (0.62 + 0.45 * dome + 0.45 * face["light x"] * x / wide).clamp(0.3, 1.25)
    if not face.scan:
        tone = tone * (1 + 0.06 * (1 - cap) * (60 * x + 3 * y).sin())
    colour = hue(face["hat hue"], 0.25 + 0.6 * face["hat depth"], 0.2 + 0.65 * face["hat light"])
    canvas.paint(face.edge(torch.maximum((r - 1) * 0.5, y - line)), tint(colour, tone))
    sides = torch.maximum(y - line - 0.01, x.abs() - wide - 0.012)
    cuff = face.edge(torch.maximum(line - 0.13 - y, sides)) * (1 - cap)
    canvas.paint(cuff, tint(colour, 0.78 * tone))
    canvas.dim(bell(((y - line + 0.13) / 0.012).square()) * cuff, 0.3)
    visor(face, canvas, cap, colour)
    brim(face, canvas, brimmed, colour)


def visor(face: Face, canvas: Canvas, worn: Tensor, colour: Tensor) -> None:
    x, below = face.head[0] - 0.35 * face.turned, face.head[1] - face.hat_line + 0.06
    r = length(x / (0.98 * face.wide), below / 0.22)
    mask = face.edge(torch.maximum(-below, (r - 1) * 0.2)) * worn
    canvas.paint(mask, tint(colour, 0.42 + 0.5 * smooth(0.55, 1.0, r)))
    canvas.dim(bell((below / 0.014).square()) * mask, 0.5)


def brim(face: Face, canvas: Canvas, worn: Tensor, colour: Tensor) -> None:
    x, y = face.head
    below = y - face.hat_line - 0.015 + 0.05 * (x / 0.8).square()
    mask = face.edge((length(x / (face.wide + 0.36), below / 0.07) - 1) * 0.07) * worn
    canvas.paint(mask, tint(colour, 0.9 - 3.0 * below.clamp(-0.05, 0.08)))


@dataclass(frozen=True)
class Lens:
    """Glasses: place from the middle of a lens, its rim at distance zero, and the frame."""

    x: Tensor
    y: Tensor
    rim: Tensor
    thick: Tensor
    colour: Tensor


def lens(face: Face) -> Lens:
    style = face["glasses style"]
    x = (face.across - 0.05 * face.turned).abs() - face.gap - 0.005
    y, tall = face.down - EYES - 0.018, 0.095 + 0.025 * style
    rim = (power_norm(x.abs() / 0.15, y.abs() / tall, 2.0 + 2.2 * style) - 1) * tall
    thick = 0.013 + 0.008 * face["glasses weight"]
    return Lens(x, y, rim, thick, ramp(FRAMES, face["glasses colour"]))


def temples(face: Face, canvas: Canvas) -> None:
    """The arms of glasses, which go under the hair."""
    g = lens(face)
    mask = face.edge(torch.maximum((g.y + 0.03).abs() - g.thick, 0.15 - g.x))
    canvas.paint(mask * face.shape, g.colour)


def glasses(face: Face, canvas: Canvas) -> None:
    g, middle = lens(face), face.gap + 0.005
    dark = (face["glasses tint"] > 0.65).float()
    tint = ramp([(0.75, 0.8, 0.85), (0.07, 0.07, 0.07)], dark)
    glass = face.edge(g.rim)
    canvas.paint(glass * (0.14 + 0.74 * dark), tint)
    glare = smooth(0.032, 0.012, (g.y + 0.6 * g.x + 0.03).abs())
    canvas.paint(0.18 * glass * glare, flat_colour((1, 1, 1)))
    arc = (g.y + 0.035 - 0.3 * (g.x + middle).square()).abs() - g.thick
    bridge = face.edge(torch.maximum(arc, g.x + 0.15))
    canvas.paint(torch.maximum(face.edge(g.rim.abs() - g.thick), bridge), g.colour)


ORDER: tuple[Part, ...] = (
    hair_back,
    neck,
    clothes,
    only_with("beard", chin_beard),
    ears,
    head,
    only_with("eyeglasses", temples),
    only_with("hat", hat_shadow),
    hair_front,
    only_with("hat", hat),
    only_with("eyeglasses", glasses),
)
"""From back to front."""


def paint(face: Face) -> Tensor:
    """(B, 3, size, size) pictures with values from 0 to 1."""
    canvas = background(face)
    for part in ORDER:
        part(face, canvas)
    if face.scan:
        canvas.rgb = torch.lerp(canvas.rgb, canvas.rgb.mean(1, keepdim=True), 0.3)
    return canvas.rgb.clamp(0, 1)
