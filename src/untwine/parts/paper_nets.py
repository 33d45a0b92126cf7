"""The encoder and decoder pairs of single papers, by name.

At the size of the paper's images the layers are exactly the paper's. At other sizes a convolutional
pair halves the sides more or less often, until about as many pixels are left as in the paper. The
heads for mean and variance belong to the model, and so does the link (a sigmoid, say) to the
likelihood: both are left out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from untwine.errors import IncompatibleError
from untwine.parts.convolutions import UpConvolution
from untwine.parts.nets import (
    Network,
    doubling_widths,
    mlp,
    mlp_decoder,
    mlp_encoder,
    require_image,
    stack,
)
from untwine.registry import network
from untwine.schema import Count

Layers = list[nn.Module]
Extra = Callable[[int], Layers]  # what goes with a layer of so many channels


def _relu(channels: int) -> Layers:
    return [nn.ReLU(inplace=True)]


def _leaky(channels: int) -> Layers:
    return [nn.LeakyReLU(0.2, inplace=True)]


def _norm_relu(channels: int) -> Layers:
    return [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]


def _norm_leaky(channels: int) -> Layers:
    return [nn.BatchNorm2d(channels), nn.LeakyReLU(0.2, inplace=True)]


class _Norm(nn.Module):
    """Batch normalisation of features (B, F), which has nothing to normalise in one example."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, h: Tensor) -> Tensor:
        if self.training and len(h) < 2:
            raise IncompatibleError(
                "this network has batch normalisation, which needs a batch of at least 2 examples "
                "to train; use a larger batch or the network conv or mlp"
            )
        return self.norm(h)


class _Gated(nn.Module):
    """h(x) ⊙ sigmoid(g(x)), with two layers of the same kind."""

    def __init__(self, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.h, self.g = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        return self.h(x) * self.g(x).sigmoid()


class _Crop(nn.Module):
    """The image of this shape that begins `first` pixels from the upper left corner."""

    def __init__(self, shape: torch.Size, first: int = 0) -> None:
        super().__init__()
        self.rows, self.columns = (slice(first, first + side) for side in shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        return x[..., self.rows, self.columns]


def _climb(channels: list[int], before: Extra, *, bias: bool = True) -> Layers:
    """Transposed convolutions of kernel 4 that double the sides, each preceded by `before`."""
    return [
        layer
        for a, b in pairwise(channels)
        for layer in (*before(a), UpConvolution(a, b, 4, 2, 1, bias=bias))
    ]


@dataclass(frozen=True)
class _Ladder:
    """An image shape and the channels after each halving of its sides."""

    shape: torch.Size
    widths: list[int]

    def sides(self, halvings: int) -> tuple[int, int]:
        """The sides after so many halvings; half a pixel counts as one."""
        _, height, width = self.shape
        return -(-height >> halvings), -(-width >> halvings)

    @property
    def left(self) -> tuple[int, int]:
        return self.sides(len(self.widths))

    def down(self, after: Extra, *, first: Extra | None = None, bias: bool = True) -> Layers:
        """Convolutions of kernel 4 that halve the sides, each followed by `after` (or `first`)."""
        layers: Layers = []
        for i, (a, b) in enumerate(pairwise([self.shape[0], *self.widths])):
            height, width = self.sides(i)
            if height % 2 or width % 2:  # one more pixel where half a pixel would be lost
                layers.append(nn.ZeroPad2d((0, width % 2, 0, height % 2)))
            extra = first if first and i == 0 else after
            layers += [nn.Conv2d(a, b, 4, 2, 1, bias=bias), *extra(b)]
        return layers

    def up(self, before: Extra, *, bias: bool = True) -> Layers:
        """The way back from the sides that are left, each layer preceded by `before`."""
        return [
            *_climb([*self.widths[::-1], self.shape[0]], before, bias=bias),
            *self.cropped(),
        ]

    def cropped(self) -> Layers:
        """Nothing, or a crop where doubling what is left overshoots."""
        reached = tuple(side << len(self.widths) for side in self.left)
        return [] if reached == self.shape[1:] else [_Crop(self.shape)]

    def flattened(self, side: int) -> Layers:
        """Features of fixed number: other images than the paper's are pooled to side x side."""
        pool = [] if self.left == (side, side) else [nn.AdaptiveAvgPool2d(side)]
        return [*pool, nn.Flatten()]


def _conv(
    features: int,
    widths: Callable[[torch.Size], list[int]],
    encoder: Callable[[_Ladder], Layers],
    decoder: Callable[[int, _Ladder], Layers],
) -> Network:
    """A convolutional pair from the layers of its encoder and of its decoder."""

    def encode(shape: torch.Size) -> nn.Module:
        require_image(shape)
        return nn.Sequential(*encoder(_Ladder(shape, widths(shape))))

    def decode(code: int, shape: torch.Size) -> nn.Module:
        return nn.Sequential(*decoder(code, _Ladder(shape, widths(shape))))

    return Network(features, encode, decode)


def _halvings(shape: torch.Size, left: int) -> int:
    """How often to halve until about `left` pixels are left."""
    return max(1, round(math.log2(min(shape[1:]) / left)))


def _doubling(first: int, last: int, left: int) -> Callable[[torch.Size], list[int]]:
    """Channels that double up to `last` where `left` pixels are left, never fewer than `first`.

    >>> _doubling(32, 128, left=4)(torch.Size((1, 64, 64)))
    [32, 32, 64, 128]
    """
    return lambda shape: [max(first, last >> i) for i in reversed(range(_halvings(shape, left)))]


def _to_image(code: int, channels: int, sides: tuple[int, int]) -> Layers:
    """A fully connected layer to a small image."""
    flat = channels * math.prod(sides)
    return [nn.Linear(code, flat), nn.Unflatten(1, (channels, *sides))]


def _initialised(
    make: Callable[..., nn.Module],
    kinds: type[nn.Module] | tuple[type[nn.Module], ...],
    initialise: Callable[[Tensor], object],
) -> Callable[..., nn.Module]:
    """The same network with other initial weights in its layers of these kinds."""

    def initialised(*args: int | torch.Size) -> nn.Module:
        made = make(*args)
        for layer in made.modules():
            if isinstance(layer, kinds):
                initialise(layer.get_parameter("weight"))
        return made

    return initialised


@network(title="Convolutional, 32 channels throughout", paper="Burgess et al., 2018")
def conv_burgess(*, width: Count = 32, hidden: Count = 256) -> Network:
    """Strided convolutions of one width and two hidden layers, as in Burgess et al., 2018.

    At 64 pixels four convolutions, at 28 and 32 pixels three.

    Args:
        width: channels of every layer.
        hidden: units of each of the two fully connected layers.
    """
    return _conv(
        hidden,
        lambda shape: [width] * _halvings(shape, 4),
        lambda image: [
            *image.down(_relu),
            nn.Flatten(),
            *stack([width * math.prod(image.left), hidden, hidden], nn.ReLU),
        ],
        lambda code, image: [
            *stack([code, hidden, hidden], nn.ReLU),
            *_to_image(hidden, width, image.left),
            *image.up(_relu),
        ],
    )


@network(title="Convolutional, for MNIST, with batch normalisation", paper="Miao et al., 2022")
def conv_intel(*, width: Count = 32) -> Network:
    """The pair for MNIST and Fashion-MNIST of Miao et al., 2022, as in its released code.

    At 28 pixels three convolutions to 4x4, and back from 7x7 with two transposed convolutions that
    double and one that does not. Other images are halved to about 4 pixels and pooled to 4x4.
    Batch normalisation has PyTorch's constants, not those of Keras.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """

    def decoder(code: int, image: _Ladder) -> Layers:
        start = image.sides(len(image.widths) - 1)
        return [
            *_to_image(code, image.widths[-1], start),
            nn.ReLU(),
            *_climb(image.widths[::-1], _norm_relu),
            *_norm_relu(image.widths[0]),
            UpConvolution(image.widths[0], image.shape[0], 4),
            _Crop(image.shape, first=1),  # what padding "same" keeps
        ]

    return _conv(
        4 * width * 4 * 4,
        _doubling(width, 4 * width, left=4),
        lambda image: [*image.down(_norm_leaky), *image.flattened(4)],
        decoder,
    )


@network(title="Convolutional, for CelebA, with batch normalisation", paper="Miao et al., 2022")
def conv_intel_celeba(*, width: Count = 64) -> Network:
    """The pair for CelebA of Miao et al., 2022, as in its released code, which differs from Table C.2.

    At 64 pixels three convolutions to 8x8 and three transposed convolutions back. Other images are
    halved to about 8 pixels and pooled to 8x8. Batch normalisation has PyTorch's constants.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """  # noqa: E501
    return _conv(
        4 * width * 8 * 8,
        _doubling(width, 4 * width, left=8),
        lambda image: [*image.down(_norm_leaky), *image.flattened(8)],
        lambda code, image: [
            *_to_image(code, 4 * width, image.left),
            nn.ReLU(),
            *image.up(_norm_relu),
        ],
    )


@network(title="Convolutional, with batch normalisation in the encoder", paper="Peis et al., 2020")
def conv_ug(*, width: Count = 32, hidden: Count = 256) -> Network:
    """The convolutional pair of UG-VAE (Peis et al., 2020), for CelebA, faces, cars and chairs.

    At 64 pixels four convolutions to 4x4 and one over all that is left; the same way back, without
    batch normalisation. Training needs batches of at least two examples.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: features between the convolutions and the latents.
    """
    return _conv(
        hidden,
        lambda shape: doubling_widths(_halvings(shape, 4), width),
        lambda image: [
            *image.down(_norm_relu),
            nn.Conv2d(image.widths[-1], hidden, image.left),
            nn.Flatten(),
            _Norm(hidden),
            nn.ReLU(),
        ],
        lambda code, image: [
            *_to_image(code, hidden, (1, 1)),
            nn.ReLU(),
            UpConvolution(hidden, image.widths[-1], image.left),
            *image.up(_relu),
        ],
    )


@network(title="Convolutional, as in DCGAN", paper="Mathieu et al., 2019")
def conv_dcgan(*, width: Count = 32) -> Network:
    """The pair for Fashion-MNIST at 32 pixels of Mathieu et al., 2019, after DCGAN.

    Three convolutions to 4x4 and four transposed convolutions back, without biases, with initial
    weights from N(0, 0.02²). The paper's heads are convolutions over the 4x4 features, the same as
    linear ones; its scale is softplus(·) + 1e-6, here the model's posterior decides. Other images
    are halved to about 4 pixels and pooled to 4x4.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """
    plain = _conv(
        4 * width * 4 * 4,
        _doubling(width, 4 * width, left=4),
        lambda image: [*image.down(_norm_leaky, first=_leaky, bias=False), *image.flattened(4)],
        lambda code, image: [
            nn.Unflatten(1, (code, 1, 1)),
            UpConvolution(code, 4 * width, image.left, bias=False),
            *image.up(_norm_relu, bias=False),
        ],
    )
    small = partial(nn.init.normal_, std=0.02)
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    return Network(
        plain.features,
        _initialised(plain.encoder, kinds, small),
        _initialised(plain.decoder, kinds, small),
    )


@network(title="Convolutional, for 128 pixels", paper="Taghanaki et al., 2020")
def conv_jigsaw(*, width: Count = 32) -> Network:
    """A deep pair for images of 128 pixels, the size of the images of Taghanaki et al., 2020.

    The paper does not give its layers; these are five convolutions to 4x4 (32 to 512 channels, batch
    normalisation, leaky ReLU) and the same way back. Other images are halved to about 4 pixels and
    pooled to 4x4.

    Args:
        width: channels of the first layer; each further layer has twice as many.
    """  # noqa: E501
    return _conv(
        16 * width * 4 * 4,
        _doubling(width, 16 * width, left=4),
        lambda image: [*image.down(_norm_leaky), *image.flattened(4)],
        lambda code, image: [
            *_to_image(code, 16 * width, image.left),
            *image.up(_norm_leaky),
        ],
    )


def _gated_down(image: _Ladder, features: int) -> Layers:
    def gated(a: int, b: int, stride: int = 1) -> nn.Module:
        return _Gated(partial(nn.Conv2d, a, b, 5, stride, 2))

    top = image.widths[-1]
    pairs = pairwise([image.shape[0], *image.widths])
    last = _Gated(partial(nn.Conv2d, top, features, image.left))
    halve = [layer for a, b in pairs for layer in (gated(a, b), gated(b, b, stride=2))]
    return [*halve, gated(top, top), last, nn.Flatten()]


def _gated_up(code: int, image: _Ladder) -> Layers:
    def gated(a: int, b: int, stride: int = 1) -> nn.Module:
        return _Gated(partial(UpConvolution, a, b, 5, stride, 2, output_padding=stride - 1))

    bottom, top = image.widths[0], image.widths[-1]
    pairs = pairwise([*image.widths[::-1], bottom])
    first = _Gated(partial(UpConvolution, code, top, image.left))
    double = [layer for a, b in pairs for layer in (gated(a, a), gated(a, b, stride=2))]
    last = nn.Conv2d(bottom, image.shape[0], 1)
    return [
        nn.Unflatten(1, (code, 1, 1)),
        first,
        *double,
        gated(bottom, bottom),
        last,
        *image.cropped(),
    ]


@network(title="Convolutional, gated", paper="van den Berg et al., 2018")
def conv_gated(*, width: Count = 32, hidden: Count = 256) -> Network:
    """Gated convolutions h ⊙ sigmoid(g) of kernel 5, as in van den Berg et al., 2018, for 28 pixels.

    Each halving is a pair of layers, with strides 1 and 2; at 7x7 one layer covers all that is
    left. The paper's variance is softplus of a linear head, here the model's posterior decides.
    Other images are halved to about 7 pixels.

    Args:
        width: channels of the first half of the layers; the second half has twice as many.
        hidden: features between the convolutions and the latents.
    """  # noqa: E501
    return _conv(
        hidden,
        lambda shape: doubling_widths(_halvings(shape, 7), width),
        lambda image: _gated_down(image, hidden),
        _gated_up,
    )


@network(title="Fully connected, gated", paper="Tomczak and Welling, 2018")
def mlp_gated(*, width: Count = 300) -> Network:
    """Two gated layers h ⊙ sigmoid(g) in and two out, as in Tomczak and Welling, 2018.

    Initial weights are from N(0, 2/inputs). The paper bounds its log-variance to [−6, 2], here the
    model's posterior decides.

    Args:
        width: units of each hidden layer.
    """

    def hidden(size: int) -> Layers:
        return [_Gated(partial(nn.Linear, a, b)) for a, b in pairwise([size, width, width])]

    def encoder(shape: torch.Size) -> nn.Module:
        return nn.Sequential(nn.Flatten(), *hidden(shape.numel()))

    def decoder(code: int, shape: torch.Size) -> nn.Module:
        last = nn.Linear(width, shape.numel())
        return nn.Sequential(*hidden(code), last, nn.Unflatten(1, shape))

    he = nn.init.kaiming_normal_
    return Network(
        width, _initialised(encoder, nn.Linear, he), _initialised(decoder, nn.Linear, he)
    )


@network(title="Fully connected, one layer", paper="Peis et al., 2020")
def mlp_ug(*, width: Count = 256) -> Network:
    """The fully connected pair of UG-VAE (Peis et al., 2020), for MNIST: one ReLU layer each way.

    Args:
        width: units of the hidden layer.
    """
    return mlp(width=width, depth=1)


@network(title="Fully connected, ten units", paper="Miao et al., 2022")
def mlp_toy(*, width: Count = 10) -> Network:
    """The small pair for points in the plane of Miao et al., 2022: two ReLU layers each way.

    As in its notebooks; the paper speaks of three layers. Its decoder gives a mean and a
    log-variance: choose the likelihood learned-gaussian.

    Args:
        width: units of each hidden layer.
    """
    return mlp(width=width, depth=2)


@network(title="Fully connected, narrowing", paper="Zhao et al., 2019")
def mlp_tgm(*, width: Count = 384, narrow: Count = 64) -> Network:
    """The pair for MNIST of the truncated mixture VAE of Zhao et al., 2019.

    One ReLU layer in, two out. The paper's encoder goes on with two branches of 64 units, one for
    the latents and one for the outliers: what the latents need beyond the shared layer is theirs.

    Args:
        width: units of the layer next to the data.
        narrow: units of the layer next to the code, in the decoder.
    """
    return Network(
        width,
        lambda shape: mlp_encoder(shape, [width]),
        lambda code, shape: mlp_decoder(code, shape, [narrow, width], nn.ReLU),
    )


@network(title="Fully connected, one tanh layer", paper="Bouchacourt et al., 2018")
def mlp_mlvae(*, width: Count = 500) -> Network:
    """The fully connected pair of ML-VAE (Bouchacourt et al., 2018): one tanh layer each way.

    Its decoder gives a mean and a log-variance: choose the likelihood learned-gaussian.

    Args:
        width: units of the hidden layer.
    """
    return Network(
        width,
        lambda shape: nn.Sequential(nn.Flatten(), *stack([shape.numel(), width], nn.Tanh)),
        lambda code, shape: mlp_decoder(code, shape, [width], nn.Tanh),
    )


@network(title="Fully connected, with batch normalisation", paper="Dilokthanakul et al., 2016")
def mlp_gm(*, width: Count = 500) -> Network:
    """The fully connected pair of GMVAE (Dilokthanakul et al., 2016): two ReLU layers each way.

    The encoder has batch normalisation, so training needs batches of at least two examples.

    Args:
        width: units of each hidden layer.
    """

    def encoder(shape: torch.Size) -> nn.Module:
        pairs = pairwise([shape.numel(), width, width])
        layers = [part for a, b in pairs for part in (nn.Linear(a, b), _Norm(b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *layers)

    return Network(
        width, encoder, lambda code, shape: mlp_decoder(code, shape, [width] * 2, nn.ReLU)
    )
