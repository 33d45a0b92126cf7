"""Published runs behind one's own: which of them, and how they are called."""

from __future__ import annotations

from untwine.study.folder import StudyFolder
from untwine.study.statistics import PARAMETER, Table, number, parameter_name
from untwine.study.titles import join_names, model_title


def published_name(folder: StudyFolder | None, published: Table | None) -> str:
    """The name and datasets of the published runs drawn behind ours."""
    if folder is None or published is None:
        return ""
    return f"{folder.study.name} on {', '.join(map(str, published['data'].unique()))}"


def restrict_to_data(published: Table, table: Table) -> Table:
    """Published runs on the datasets of our runs; `sprites` counts as dSprites.

    If no dataset matches, all published runs.
    """
    names = {str(name).partition("(")[0] for name in table["data"].unique()}
    names |= {"dsprites"} if "sprites" in names else set()
    same = published[published["data"].isin(names)]
    return same if len(same) else published


def restrict_to_values(published: Table, table: Table) -> tuple[Table, list[str]]:
    """Published runs of our models, at the values of our runs where there are such.

    Returns:
        the runs, and the models of which no value is ours, so that all of their runs are there
    """
    import pandas as pd

    groups: list[Table] = []
    others: list[str] = []
    for model, group in published.groupby("model", sort=False):
        ours = table[table["model"] == model]
        if not len(ours):
            continue
        column = PARAMETER + parameter_name(group)
        values = ours[column if column in ours else "value"].map(number).dropna()
        same = group[group["value"].map(number).isin(values)]
        others += [] if len(same) else [str(model)]
        groups.append(same if len(same) else group)
    return (pd.concat(groups) if groups else published), others


def which_values(published: Table, others: list[str]) -> str:
    """At which parameter values published runs are shown."""
    if not others:
        return "at our parameter values"
    if len(others) == published["model"].nunique():
        return "at all their parameter values"
    return f"at our parameter values ({join_names(list(map(model_title, others)))}: at all)"
