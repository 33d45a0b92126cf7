"""A script with batch norms and its faster list of operations agree."""

import pytest
import torch
from torch import nn

from untwine.estimators.folding import FoldedNetwork, in_threads
from untwine.estimators.frechet import frechet_distance
from untwine.tools.compute import limit_threads


class Small(nn.Module):
    """Branches, pools and norms, as a classifier of photographs has them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.left = nn.Sequential(nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.right = nn.Sequential(
            nn.MaxPool2d(3, 1, 1), nn.Conv2d(8, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        )

    def forward(self, x):
        x = self.first(x)
        x = torch.cat([self.left(x).contiguous(), self.right(x)], 1)
        return nn.functional.avg_pool2d(x, 15).reshape(-1, 8)


class ReadAgain(nn.Module):
    """What a rectifier reads is read by others as well."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        plain = self.conv(torch.relu(x))
        normed = self.norm(self.conv(x))
        return torch.cat([torch.relu(plain), plain, torch.relu(normed), normed], 1)


def small_script():
    torch.manual_seed(0)
    network = Small()
    network(torch.rand(32, 3, 31, 31) * 3)  # statistics that are not those of the start
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias)
    return torch.jit.script(network.eval())


def test_the_folded_network_computes_the_same():
    script = small_script()
    images = torch.rand(5, 3, 31, 31)
    with torch.inference_mode(), limit_threads(2):
        expected = script(images)
        folded = FoldedNetwork(script)
        assert torch.allclose(folded(images), expected, rtol=1e-5, atol=1e-6)
        assert torch.allclose(in_threads(folded, images), expected, rtol=1e-5, atol=1e-6)
        assert in_threads(folded, images[:1]).shape == (1, 8)
        assert torch.get_num_threads() == 2


def test_nothing_is_overwritten_that_is_read_again():
    torch.manual_seed(0)
    script, images = torch.jit.script(ReadAgain().eval()), torch.randn(2, 3, 5, 5)
    before = images.clone()
    with torch.inference_mode():
        assert torch.allclose(FoldedNetwork(script)(images), script(images), atol=1e-6)
    assert torch.equal(images, before)


def test_distances_between_its_features_are_the_same():
    script = small_script()
    first, second = torch.rand(60, 3, 31, 31), torch.rand(60, 3, 31, 31) ** 2
    with torch.inference_mode():
        distances = [
            frechet_distance(*(network(images).numpy() for images in (first, second)))
            for network in (script, FoldedNetwork(script))
        ]
    assert distances[0] > 0 and distances[1] == pytest.approx(distances[0], rel=1e-5)
