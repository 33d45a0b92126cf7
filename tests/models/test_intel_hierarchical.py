"""Facts special to the hierarchical InteL-VAE."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import untwine
from untwine import IncompatibleError, ParameterError
from untwine.models.intel_hierarchical import Levels, even_levels
from untwine.records import Batch, Sizes

ACTS = ["relu", "linear", "tanh"]


def levels(sizes, act="relu"):
    mapping = Levels(Sizes(torch.Size((4,)), latent=sum(sizes)), levels=sizes, act=act)
    return mapping.double()


def make(data, **settings):
    return untwine.build("intel-hierarchical", data, network="mlp", width=16, latent=4, **settings)


@pytest.mark.parametrize("act", ACTS)
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5).map(tuple))
def test_a_level_never_changes_those_before_it(act, sizes):
    mapping = levels(sizes, act)
    y = torch.randn(sum(sizes), dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(lambda v: mapping(v[None])[0][0], y)
    level = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    assert (slope[level[:, None] < level[None, :]] == 0).all()


def test_a_level_changes_all_those_after_it():
    y = torch.randn(6, dtype=torch.float64)
    mapping = levels((2, 2, 2), "tanh")
    slope = torch.autograd.functional.jacobian(lambda v: mapping(v[None])[0][0], y)
    assert (slope[4:, :2] != 0).all() and (slope[2:4, :2] != 0).all()


def test_one_level_is_the_vae_bit_for_bit(tiny):
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=4)
    options = {"steps": 20, "batch": 8, "quiet": True}
    history = untwine.fit(make(tiny, levels=(4,)), tiny, **options)
    assert history == untwine.fit(plain, tiny, **options)


def test_linear_levels_that_copy_their_noise_are_the_identity():
    mapping = levels((3, 2, 4), "linear")
    for layer in mapping.layers:
        below = layer.out_features
        with torch.no_grad():
            layer.bias.zero_()
            layer.weight.zero_()[:, -below:] = torch.eye(below)
    y = torch.randn(5, 9, dtype=torch.float64)
    assert torch.equal(mapping(y)[0], y)


def test_a_linear_map_is_the_first_layer_of_a_vaes_decoder(tiny):
    """g(y) = Ay + b: the loss of a VAE whose first layer is W(A·+b) instead of W."""
    model = make(tiny, act="linear").double()
    plain = untwine.build("vae", tiny, network="mlp", width=16, latent=4).double()
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        b = model.mapping(torch.zeros(1, 4).double())[0]
        a = (model.mapping(torch.eye(4).double())[0] - b).T
        first = plain.decoder[0]
        first.bias += first.weight @ b[0]
        first.weight.copy_(first.weight @ a)
    batch, losses = Batch(tiny.take(list(range(8))).double()), []
    for each in (model, plain):
        torch.manual_seed(0)
        losses.append(each.objective(each.trace(batch))["loss"].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@given(st.integers(1, 200))
def test_the_default_splits_any_number_of_latents_evenly(latent):
    levels = even_levels(latent)
    assert sum(levels) == latent and len(levels) == min(5, latent)
    assert max(levels) - min(levels) <= 1


@pytest.mark.parametrize("latent", [1, 2, 7])
def test_the_default_builds_for_any_number_of_latents(latent, tiny):
    model = untwine.build("intel-hierarchical", tiny, network="mlp", width=8, latent=latent)
    assert model.encode(tiny.take([0, 1])).shape == (2, latent)


def test_the_activation_bounds_the_levels_below_the_first(tiny):
    x = tiny.take(list(range(16)))
    assert (make(tiny, levels=(1, 3)).encode(x)[:, 1:] >= 0).all()
    assert (make(tiny, levels=(1, 3), act="tanh").encode(x)[:, 1:].abs() < 1).all()


def test_bad_levels_are_refused(tiny):
    with pytest.raises(
        ParameterError, match=r"intel-hierarchical\.levels must be whole numbers of at least 1"
    ):
        make(tiny, levels=(4, 0))
    with pytest.raises(IncompatibleError, match="add up to the 4 latents"):
        make(tiny, levels=(2, 3))


def test_each_level_is_made_from_the_one_before_it(tiny):
    model = make(tiny, levels=(1, 1, 2), act="linear")
    z = torch.randn(1, 4)
    first, second = model.mapping.layers
    w = model.mapping(z)[0]
    assert torch.allclose(w[:, 1:2], first(z[:, :2]))
    assert torch.allclose(w[:, 2:], second(torch.cat([w[:, 1:2], z[:, 2:]], 1)))
