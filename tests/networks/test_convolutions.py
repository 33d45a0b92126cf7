"""Transposed convolutions equal PyTorch's own, in values, gradients and second derivatives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from untwine.networks._convolutions import MAX_FOLDED_CHANNELS, UpConvolution

CASES = st.fixed_dictionaries(
    {
        "channels": st.tuples(st.integers(1, 9), st.integers(1, 2 * MAX_FOLDED_CHANNELS)),
        "kernel": st.tuples(st.integers(1, 5), st.integers(1, 5)),
        "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "sides": st.tuples(st.integers(1, 6), st.integers(1, 6)),
        "bias": st.booleans(),
        "last": st.booleans(),
    }
)


def pair(case):
    """The fast layer and PyTorch's, with the same weights, in double precision."""
    padding = tuple(k // 2 - (k % 2 == 0) if k > 1 else 0 for k in case["kernel"])
    extra = tuple(s - 1 for s in case["stride"])
    layout = torch.channels_last if case["last"] else torch.contiguous_format
    arguments = (*case["channels"], case["kernel"], case["stride"], padding, extra)
    fast, plain = (
        kind(*arguments, bias=case["bias"], dtype=torch.float64).to(memory_format=layout)
        for kind in (UpConvolution, nn.ConvTranspose2d)
    )
    plain.load_state_dict(fast.state_dict())
    return fast, plain


@given(CASES)
@settings(deadline=None, max_examples=60)
def test_values_and_gradients_are_those_of_pytorch(case):
    torch.manual_seed(0)
    fast, plain = pair(case)
    x = torch.randn(2, case["channels"][0], *case["sides"], dtype=torch.float64)
    results = []
    for layer in (fast, plain):
        copy = x.clone().requires_grad_()
        y = layer(copy)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
        results.append([y, copy.grad, *(p.grad for p in layer.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("out", [1, MAX_FOLDED_CHANNELS + 1])
def test_derivatives_against_differences(out):
    layer = UpConvolution(3, out, 4, 2, 1, dtype=torch.float64)
    x = torch.randn(2, 3, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)
    assert torch.autograd.gradgradcheck(layer, x)


def test_only_the_gradients_that_are_asked_for():
    layer = UpConvolution(3, 8, 4, 2, 1)
    layer.weight.requires_grad_(False)
    layer(torch.rand(2, 3, 4, 4)).sum().backward()
    assert layer.weight.grad is None and layer.bias.grad is not None


@pytest.mark.parametrize("arguments", [{"groups": 2}, {"dilation": 2}])
def test_other_kinds_are_left_to_pytorch(arguments):
    layer = UpConvolution(4, 2, 3, **arguments)
    x = torch.rand(2, 4, 5, 5)
    plain = nn.functional.conv_transpose2d(x, layer.weight, layer.bias, **arguments)
    assert torch.equal(layer(x), plain)


@pytest.mark.parametrize("out", [1, MAX_FOLDED_CHANNELS + 1])
def test_several_models_at_once(out):
    """As `torch.func` stacks them: every model's gradient is its own."""
    layers = [UpConvolution(3, out, 4, 2, 1) for _ in range(2)]
    x = torch.rand(2, 5, 3, 4, 4)  # a batch for each
    parameters, _ = stack_module_state(layers)

    def loss(parameters, x):
        return functional_call(layers[0], parameters, x).square().sum()

    together = vmap(grad(loss))(parameters, x)
    for i, layer in enumerate(layers):
        layer(x[i]).square().sum().backward()
        torch.testing.assert_close(together["weight"][i], layer.weight.grad)
        torch.testing.assert_close(together["bias"][i], layer.bias.grad)
