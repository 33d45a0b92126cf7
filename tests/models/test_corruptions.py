"""Facts special to Jigsaw-VAE, the denoising VAE and Mixup-VAE."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.models.jigsaw import permutations, shuffle_windows
from untwine.models.mixup import blend


def fit(name, data, **settings):
    model = untwine.build(name, data, network="mlp", **settings)
    return untwine.fit(model, data, steps=10, batch=8, quiet=True)


def corruption(name, data, **settings):
    return untwine.build(name, data, network="mlp", **settings).train().corruption


@pytest.fixture(scope="module")
def colour():
    torch.manual_seed(0)
    return untwine.from_arrays(torch.rand(40, 16, 16, 3).numpy())


@pytest.mark.parametrize(("name", "off"), [("jigsaw", {"grid": 1}), ("denoising", {"sigma": 0})])
def test_no_corruption_is_the_vae(tiny, name, off):
    """The corruption draws numbers of its own, so only the clean input is compared."""
    x = tiny.take(list(range(8)))
    seen, target = corruption(name, tiny, **off)(x)
    assert torch.equal(seen, x) and torch.equal(target, x)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 4]))
def test_shuffling_back_restores_the_image_bit_for_bit(seed, grid):
    torch.manual_seed(seed)
    x = torch.rand(3, 2, 8, 12)
    order = permutations(3, grid * grid, x.device)
    back = shuffle_windows(shuffle_windows(x, order, grid), order.argsort(1), grid)
    assert torch.equal(back, x)


def test_a_cell_shows_the_window_that_the_permutation_names():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    swapped = shuffle_windows(x, torch.tensor([[1, 0, 2, 3]]), 2)
    assert torch.equal(swapped[0, 0, :2, :2], x[0, 0, :2, 2:])
    assert torch.equal(swapped[0, 0, 2:], x[0, 0, 2:])


@pytest.mark.parametrize("shuffle", ["windows", "both"])
def test_jigsaw_keeps_the_pixels_and_the_target(colour, shuffle):
    x = colour.take(list(range(20)))
    shuffled, target = corruption("jigsaw", colour, shuffle=shuffle)(x)
    assert target is x and not torch.equal(shuffled, x)
    assert torch.equal(shuffled.flatten(1).sort(1).values, x.flatten(1).sort(1).values)


def test_permuting_channels_keeps_their_sum_in_every_pixel(colour):
    x = colour.take(list(range(20)))
    shuffled, _ = corruption("jigsaw", colour, shuffle="channels")(x)
    assert torch.allclose(shuffled.sum(1), x.sum(1)) and not torch.equal(shuffled, x)


def test_examples_of_a_batch_get_permutations_of_their_own(tiny):
    x = tiny.take([400_000]).expand(8, -1, -1, -1)
    shuffled, _ = corruption("jigsaw", tiny)(x)
    assert len(shuffled.flatten(1).unique(dim=0)) > 1


def test_permutations_are_uniform():
    torch.manual_seed(0)
    orders = permutations(6000, 3, torch.device("cpu"))
    _, counts = orders.unique(dim=0, return_counts=True)
    assert len(counts) == 6 and counts.min() > 850


@pytest.mark.parametrize(
    ("shape", "settings", "sentence"),
    [
        ((8, 30, 32), {}, "cannot be cut into 4x4"),
        ((8, 5), {}, "needs images"),
        ((8, 16, 16), {"shuffle": "channels"}, "no channels to shuffle"),
    ],
)
def test_jigsaw_refuses_what_it_cannot_cut(shape, settings, sentence):
    data = untwine.from_arrays(torch.rand(shape).numpy())
    with pytest.raises(untwine.IncompatibleError, match=sentence):
        untwine.build("jigsaw", data, network="mlp", **settings)


def test_salt_and_pepper_changes_a_binomial_number_of_pixels():
    torch.manual_seed(0)
    data = untwine.from_arrays(torch.full((50, 32, 32), 0.5).numpy())
    x = data.take(list(range(50)))
    noisy, target = corruption("denoising", data, noise="salt-and-pepper", rate=0.05)(x)
    changed = noisy != x
    assert target is x and set(noisy[changed].unique().tolist()) == {0.0, 1.0}
    assert changed.float().mean().item() == pytest.approx(0.05, abs=0.005)


def test_gaussian_noise_stays_in_range_for_images_and_not_for_vectors(tiny):
    noisy, _ = corruption("denoising", tiny, sigma=0.5)(tiny.take(list(range(8))))
    assert 0 <= noisy.min() and noisy.max() <= 1
    vectors = untwine.from_arrays(torch.zeros(8, 500).numpy())
    noisy, _ = corruption("denoising", vectors, sigma=0.5)(vectors.take(list(range(8))))
    assert noisy.min() < 0 and noisy.std().item() == pytest.approx(0.5, rel=0.1)


def test_salt_and_pepper_needs_images():
    data = untwine.from_arrays(torch.zeros(8, 5).numpy())
    with pytest.raises(untwine.IncompatibleError, match="needs images"):
        untwine.build("denoising", data, noise="salt-and-pepper")


def test_mixup_is_a_convex_combination_of_two_images(colour):
    x = colour.take(list(range(30)))
    mixed, _ = corruption("mixup", colour, a=1.0)(x)
    low, high = x.min(0).values, x.max(0).values
    assert (mixed >= low - 1e-6).all() and (mixed <= high + 1e-6).all()


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_the_image_itself_has_the_larger_share(share):
    mixed = blend(torch.zeros(1, 3), torch.ones(1, 3), torch.full((1, 1), share))
    assert torch.allclose(mixed, torch.full((1, 3), min(share, 1 - share)))


def shares(data, a, n=400):
    """How much of itself each of n images keeps, from images that are one-hot vectors."""
    x = torch.eye(n)
    mixed, _ = corruption("mixup", data, a=a)(x)
    return mixed.diagonal()


def test_shares_are_drawn_for_every_example_from_a_symmetric_beta():
    torch.manual_seed(0)
    data = untwine.from_arrays(torch.eye(400).numpy())
    share = shares(data, 1.0)
    assert len(share.unique()) > 390 and share.min() >= 0.5
    assert share.mean().item() == pytest.approx(0.75, abs=0.03)  # max of a uniform and its rest


def test_members_of_a_group_stay_their_own_targets(colour):
    x = colour.take(list(range(30)))
    assert corruption("mixup", colour, a=1.0)(x)[1] is x


@pytest.mark.parametrize(
    ("name", "options"), [("denoising", {}), ("jigsaw", {"shuffle": "channels"})]
)
def test_every_example_has_its_own_noise_or_channel_order(colour, name, options):
    x = colour.take([0]).expand(12, -1, -1, -1)
    seen, _ = corruption(name, colour, **options)(x)
    assert len(seen.flatten(1).unique(dim=0)) > 1


def test_salt_and_pepper_come_in_equal_parts():
    torch.manual_seed(0)
    data = untwine.from_arrays(torch.full((50, 32, 32), 0.5).numpy())
    noisy, _ = corruption("denoising", data, noise="salt-and-pepper", rate=0.2)(
        data.take(range(50))
    )
    assert noisy[noisy != noisy.median()].mean().item() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", ["jigsaw", "denoising", "mixup"])
def test_an_identity_in_place_of_the_corruption_gives_the_loss_of_the_beta_vae(
    name, tiny, monkeypatch
):
    kind = type(corruption(name, tiny))
    monkeypatch.setattr(kind, "corrupt", lambda self, x: (x, x))
    assert fit(f"{name}+beta-vae", tiny, beta=3) == fit("beta-vae", tiny, beta=3)


class MeanPixel(torch.nn.Module):
    """Features that do not depend on the order of windows."""

    def forward(self, x):
        return x.double().mean((1, 2, 3))[:, None].expand(-1, 256).float()


def test_an_encoder_that_ignores_the_order_has_the_loss_of_the_vae(tiny):
    x, losses = tiny.take(list(range(0, 8000, 1000))), []
    for name in ("vae", "jigsaw"):
        model = untwine.build(name, tiny, network="mlp").train()
        model.encoder = MeanPixel()
        shuffled, target = model.corruption(x)
        torch.manual_seed(0)
        latents = model.latents(
            model.encoder(shuffled), untwine.Batch(x), model.encoder, mean=False
        )
        px = model.likelihood.observe(model.decoder(latents["z"].draw.z))
        losses.append((latents["z"].kl - px.log_prob(target)).mean().item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_tiny_a_mixes_nothing(colour):
    torch.manual_seed(0)
    x = colour.take(list(range(30)))
    mixed, target = corruption("mixup", colour, a=0.01)(x)
    close = (mixed - target).abs().flatten(1).amax(1) < 1e-3
    assert close.float().mean() > 0.8


def test_mixup_of_one_example_is_that_example(colour):
    x = colour.take([3])
    mixed, target = corruption("mixup", colour)(x)
    assert torch.allclose(mixed, x) and torch.equal(target, x)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("jigsaw", {"grid": 0}),
        ("denoising", {"sigma": -1}),
        ("denoising", {"rate": 2}),
        ("mixup", {"a": 0}),
    ],
)
def test_impossible_numbers_are_refused(tiny, name, settings):
    with pytest.raises(untwine.ParameterError, match=name):
        untwine.build(name, tiny, **settings)
