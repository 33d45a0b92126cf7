"""How tables and figures call models, settings and scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from untwine.errors import UntwineError
from untwine.registry import metrics, models

MAX_ABBREVIATION = 4  # letters of a metric's name that is written in capitals


def model_title(name: str) -> str:
    """A model as papers call it; a name that is not registered stays as it is.

    >>> model_title("jigsaw+beta-tcvae"), model_title("theirs")
    ('Jigsaw-VAE + β-TCVAE', 'theirs')
    """
    return " + ".join(models[n].title if n in models else n for n in str(name).split("+"))


def setting_title(setting: str) -> str:
    """A setting with the title of its model.

    >>> setting_title("beta-vae beta=4")
    'β-VAE beta=4'
    """
    model, space, numbers = str(setting).partition(" ")
    return f"{model_title(model)}{space}{numbers}"


def score_title(score: str) -> str:
    """A score in short.

    >>> [score_title(n) for n in ("mig", "sap[svm]", "dci.disentanglement", "beta-vae-score")]
    ['MIG', 'SAP [svm]', 'DCI disentanglement', 'BetaVAE score']
    """
    label, _, value = str(score).partition(".")
    try:
        entry, _ = metrics.parse(label)
    except UntwineError:
        return str(score)
    abbreviation = entry.name.upper() if len(entry.name) <= MAX_ABBREVIATION else ""
    short = abbreviation or entry.metadata.get("short_title", "")
    title = f"{short or entry.title} {label.removeprefix(entry.name)}".strip()
    return f"{title}{'' if short else ','} {value.replace('_', ' ')}" if value else title


def join_names(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> join_names(["MIG", "SAP", "DCI"])
    'MIG, SAP and DCI'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def explain_scores(scores: Iterable[str]) -> str:
    """What the abbreviations among the scores stand for: `MIG: mutual information gap`."""
    names = dict.fromkeys(str(score).partition(".")[0].partition("[")[0] for score in scores)
    short = [n for n in names if n in metrics and len(n) <= MAX_ABBREVIATION]
    return "; ".join(f"{n.upper()}: {_lower_first(metrics[n].title)}" for n in short)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
