"""How often features appear: in the data, in real images as a classifier sees them, in samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from untwine.evidence import Evidence, Runs, present
from untwine.exhibits import exhibit
from untwine.exhibits.tables import MISSING, mean_and_spread
from untwine.pages import Section


@exhibit
def feature_shares(
    evidence: Evidence,
    *,
    study: str,
    runs: Mapping[str, Runs],
    paper: Mapping[str, float | None],
    label: str = "features",
) -> Iterator[Section]:
    """The share of each feature in per cent, which says whether samples have too many or too few.

    Args:
        evidence: what our runs found; the measure `features` must be among it.
        study: whose runs.
        runs: the paper's name of a model, and which runs it is.
        paper: the features, and their shares in the paper's data.
        label: of the measure.
    """
    tables = {n: evidence.select(study, d) for n, d in present(evidence, study, runs).items()}
    any_run = next(iter(tables.values())).iloc[:1]
    rows = [
        (
            name,
            MISSING if share is None else str(share),
            mean_and_spread(any_run[f"{label}.{name} in data"]),
            mean_and_spread(any_run[f"{label}.{name} in real"]),
            *(mean_and_spread(found[f"{label}.{name} in samples"]) for found in tables.values()),
        )
        for name, share in paper.items()
    ]
    right = float(any_run[f"{label}.accuracy"].iloc[0])
    floor = float(any_run[f"{label}.average of real"].iloc[0])
    yield Section(
        f"feature-shares-{study}",
        "How often each feature is seen, in per cent",
        f"On {evidence.heading(study)}. In data: by its labels. In real: by the classifier in "
        f"real images that it did not learn from, {right:.1f} % of whose features it knows. Such "
        f"images have an average FPM of {floor:.2f}, so that smaller values of models mean "
        "nothing. Then by the classifier in samples of each model.",
        header=("", "in data, paper", "in data, ours", "in real", *tables),
        rows=tuple(rows),
    )
