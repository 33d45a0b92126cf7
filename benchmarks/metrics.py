"""Our metrics compared with the same computations by scikit-learn and loops, in one run.

python benchmarks/metrics.py           10,000 and 5,000 rows; 2,000 and 1,000 for DCI; five minutes
python benchmarks/metrics.py --full    the same, then DCI at 10,000 rows once; five minutes more
python benchmarks/metrics.py --quick   2,000 and 1,000 rows; 300 and 150 for DCI; half a minute

ours       untwine.metrics
other way  how the 2019 study's library computes the same scores: one mutual_info_score per latent
           and factor, one LinearSVC per latent and factor, a Python loop over batches, and
           GradientBoostingClassifier for every factor

The codes have the shape of codes of dSprites: ten latents, five factors of 3, 6, 40, 32 and 32
levels, two of them rotated by 30 degrees. Both ways take turns in one process; ours is compiled
before.
"""

import argparse

import numpy as np
from harness import Result, seconds, section, show, table
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC

from untwine import metrics

SIZES = np.array([3, 6, 40, 32, 32])
LATENTS = 10
BINS = 20
STUDY = ("beta-vae-score", "factor-vae-score", "mig", "sap[svm]", "dci", "modularity")


def encode(levels, rng):
    """(n, 5) levels to (n, 10) codes: three clean, two mixed, five all but dead."""
    g = (levels - (SIZES - 1) / 2) / np.sqrt((SIZES**2 - 1) / 12)
    z = 0.01 * rng.standard_normal((len(g), LATENTS))
    z[:, :5] = g + 5 * z[:, :5]
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    z[:, 3], z[:, 4] = c * z[:, 3] + s * z[:, 4], c * z[:, 4] - s * z[:, 3]
    return z.astype(np.float32)


def draw(n, rng):
    return np.stack([rng.integers(size, size=n) for size in SIZES], 1)


class Codes:
    """The codes and factors that every metric scores."""

    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.n = n
        self.f, self.test_f = draw(n, rng), draw(n // 2, rng)
        self.z, self.test_z = encode(self.f, rng), encode(self.test_f, rng)

    @property
    def four(self):
        return self.z, self.f, self.test_z, self.test_f


def bin_codes(z):
    return np.stack(
        [np.digitize(column, np.histogram(column, BINS)[1][:-1]) for column in z.T], axis=1
    )


def information_by_pairs(rows):
    z = bin_codes(rows.z)
    return np.array([[mutual_info_score(a, b) for b in rows.f.T] for a in z.T])


def mig_by_pairs(rows):
    information = np.sort(information_by_pairs(rows), axis=0)
    entropy = [mutual_info_score(column, column) for column in rows.f.T]
    return np.mean((information[-1] - information[-2]) / entropy)


def modularity_by_pairs(rows):
    squared = information_by_pairs(rows) ** 2
    best = squared.max(1)
    return np.mean(1 - (squared.sum(1) - best) / (best * (squared.shape[1] - 1)))


def sap_by_classifiers(rows):
    def accuracy(i, k):
        machine = LinearSVC(C=0.01, class_weight="balanced")
        machine.fit(rows.z[:, [i]], rows.f[:, k])
        return np.mean(machine.predict(rows.test_z[:, [i]]) == rows.test_f[:, k])

    scores = np.array([[accuracy(i, k) for k in range(len(SIZES))] for i in range(LATENTS)])
    ordered = np.sort(scores, axis=0)
    return np.mean(ordered[-1] - ordered[-2])


def explicitness_by_classes(rows):
    mean, std = rows.z.mean(0), rows.z.std(0)
    z, test_z = (rows.z - mean) / std, (rows.test_z - mean) / std
    areas = []
    for k in range(len(SIZES)):
        probability = LogisticRegression().fit(z, rows.f[:, k]).predict_proba(test_z)
        truth = LabelBinarizer().fit(rows.f[:, k]).transform(rows.test_f[:, k])
        areas.append(
            np.mean([roc_auc_score(t, p) for t, p in zip(truth.T, probability.T, strict=True)])
        )
    return np.mean(areas)


def dci_by_boosting(rows):
    importances = np.stack(
        [
            GradientBoostingClassifier(random_state=0)
            .fit(rows.z, rows.f[:, k])
            .feature_importances_
            for k in range(len(SIZES))
        ],
        axis=1,
    )
    p = importances + 1e-11
    p = p / p.sum(1, keepdims=True)
    each = 1 + (p * np.log(p)).sum(1) / np.log(p.shape[1])
    return (each * importances.sum(1)).sum() / importances.sum()


def beta_vae_by_loop(rows):
    rng = np.random.default_rng(1)

    def points(n):
        features, labels = np.zeros((n, LATENTS)), np.zeros(n, int)
        for i in range(n):
            k = rng.integers(len(SIZES))
            first, second = draw(64, rng), draw(64, rng)
            second[:, k] = first[:, k]
            features[i] = np.abs(encode(first, rng) - encode(second, rng)).mean(0)
            labels[i] = k
        return features, labels

    classifier = LogisticRegression().fit(*points(rows.n))
    return classifier.score(*points(rows.n // 2))


def factor_vae_by_loop(rows):
    rng = np.random.default_rng(1)
    spread = rows.z.var(0, ddof=1)
    active = np.sqrt(spread) >= 0.05

    def votes(n):
        counts = np.zeros((len(SIZES), active.sum()), int)
        for _ in range(n):
            k = rng.integers(len(SIZES))
            levels = draw(64, rng)
            levels[:, k] = levels[0, k]
            inside = encode(levels, rng)[:, active].var(0, ddof=1)
            counts[k, np.argmin(inside / spread[active])] += 1
        return counts

    winner = votes(rows.n).argmax(0)
    test = votes(rows.n // 2)
    return test[winner, np.arange(active.sum())].sum() / test.sum()


def first(result):
    return next(iter(result.values())) if isinstance(result, dict) else result


CASES = {
    "mig": (lambda r: metrics.mig(r.z, r.f), mig_by_pairs),
    "modularity": (lambda r: metrics.modularity(r.z, r.f), modularity_by_pairs),
    "sap[svm]": (lambda r: metrics.sap(*r.four, method="svm"), sap_by_classifiers),
    "explicitness": (lambda r: metrics.explicitness(*r.four), explicitness_by_classes),
    "factor-vae-score": (
        lambda r: metrics.factor_vae_score(r.z, r.f, votes=r.n, test_votes=r.n // 2),
        factor_vae_by_loop,
    ),
    "beta-vae-score": (
        lambda r: metrics.beta_vae_score(r.z, r.f, train=r.n, test=r.n // 2),
        beta_vae_by_loop,
    ),
    "dci": (lambda r: metrics.dci(*r.four), dci_by_boosting),
}


def take_turns(name, n, rounds):
    """The scores and the seconds of both ways on n rows: (values, Results)."""
    rows, works = Codes(n), CASES[name]
    works[0](Codes(200))  # compile
    spent, values = ([], []), [0.0, 0.0]

    def work(way):
        values[way] = first(works[way](rows))

    for turn in range(rounds):
        for way in (0, 1):
            show(f"{name}, {n:,} rows: round {turn + 1} of {rounds}, {('ours', 'other way')[way]}")
            spent[way].append(seconds(lambda way=way: work(way)))
    show("")
    return values, [Result.of(each) for each in spent]


def row(name, n, values, ours, other):
    score, reference = values
    return [
        name,
        f"{n:,}",
        ours.format(".3g"),
        other.format(".3g"),
        f"{other.over(ours):.0f}",
        f"{score:.4f}",
        f"{reference:.4f}",
    ]


def introduce(dci_rows, rounds, full):
    section(
        "Scores",
        f"Seconds of each metric, ours and the other way (scikit-learn and loops, as in the "
        f"library of the 2019 study), {rounds} turns each, with half as many test rows; the last "
        "two columns are the scores of the two ways. For metrics that draw batches, rows are "
        "batches.",
        f"The other way of DCI takes minutes for 10,000 rows, so it is compared on {dci_rows:,}"
        + (", and once, with `--full`, on 10,000." if full else "; `--full` adds 10,000."),
    )


def main():
    parser = argparse.ArgumentParser(description="Our scores against scikit-learn and loops.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--full", action="store_true", help="DCI at 10,000 rows as well")
    options = parser.parse_args()
    n, dci_rows = (2_000, 300) if options.quick else (10_000, 2_000)
    plan = [(name, dci_rows if name == "dci" else n, options.rounds) for name in CASES]
    plan += [("dci", 10_000, 1)] * options.full
    lines, total = [], np.zeros(2)
    for name, size, rounds in plan:
        values, results = take_turns(name, size, rounds)
        lines.append(row(name, size, values, *results))
        if name in STUDY and (name, size) != ("dci", dci_rows):
            total += [each.median for each in results]
    introduce(dci_rows, options.rounds, options.full)
    table(["score", "rows", "ours, s", "other way, s", "ratio", "ours", "other way"], lines)
    ours, other = total
    suite = "The 2019 study's suite" + ("" if options.full else " without DCI")
    print(f"{suite}: {ours:.2g} s against {other:.3g} s, {other / ours:.0f} times.\n")


if __name__ == "__main__":
    main()
