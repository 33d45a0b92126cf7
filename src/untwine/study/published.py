"""Results that others published, as a study here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from untwine.data.incoming.tables import parse_csv, read_csv
from untwine.errors import DataError, ParameterError
from untwine.study.document import PLAIN
from untwine.study.file import Study
from untwine.study.folder import StudyFolder, make_folder, read_imported
from untwine.study.statistics import DESCRIPTION, Table

# Locatello et al., 2019, as extracted for the comparison of constrained VAEs: their name of a
# model to ours, with the column that holds its number and what we call that number.
MODELS = {
    "beta_vae": ("beta-vae", "vae_beta", "beta"),
    "annealed_vae": ("annealed-vae", "annealed_vae_c_max", "capacity"),
    "factor_vae": ("factor-vae", "factor_vae_gamma", "gamma"),
    "beta_tc_vae": ("beta-tcvae", "beta_tc_vae_beta", "beta"),
    "dip_vae_i": ("dip-vae-i", "dip_vae_lambda_od", "lambda_od"),
    "dip_vae_ii": ("dip-vae-ii", "dip_vae_lambda_od", "lambda_od"),
}
OUR_COLUMNS = {"model", "setting", "data", "seed"}
DATA = {
    "dsprites_full": "dsprites",
    "color_dsprites": "colour-dsprites",
    "noisy_dsprites": "noisy-dsprites",
    "scream_dsprites": "scream-dsprites",
}
SCORES = {
    "beta_vae_eval_accuracy": "beta-vae-score",
    "factor_vae_eval_accuracy": "factor-vae-score",
    "mig_discrete_mig": "mig",
    "sap_score": "sap[svm]",
    "dci_disentanglement": "dci.disentanglement",
    "dci_completeness": "dci.completeness",
    "dci_informativeness_test": "dci.informativeness",
    "modularity_score": "modularity",
    "modularity_explicitness_score_test": "explicitness[2019]",
    "reconstruction_loss": "reconstruction loss",
    "kl_loss": "kl",
    "elbo": "elbo",
}


def import_published(
    files: Sequence[Path], name: str = "published", out: str | Path = "studies"
) -> tuple[StudyFolder, int]:
    """A study from CSV files: the published ones, or what `untwine study results --csv` wrote.

    Returns:
        the study's folder, and the number of runs
    """
    _check_free(Path(out) / name, name)
    table = read_published(files)
    about = f"{len(table):,} runs by others, from {', '.join(file.name for file in files)}"
    content = table.to_csv(index=False).encode()
    return make_folder(Study(name, (), (), about=about), out, imported=content), len(table)


def read_published(files: Sequence[Path]) -> Table:
    """The results in CSV files as one table under our names."""
    import pandas as pd

    table = pd.concat([_read(file) for file in files], ignore_index=True)
    twice = table.duplicated(["setting", "data", "seed"])
    if twice.any():
        first = table[twice].iloc[0]
        raise DataError(
            f"{first['setting']} on {first['data']} with seed {first['seed']} is there twice; "
            "give each file once"
        )
    return table


def _check_free(path: Path, name: str) -> None:
    """Refuse a name that is none, or that a study with runs of its own has."""
    if not PLAIN.fullmatch(name):
        raise ParameterError(f"a study must have a plain name, not {name!r}")
    if (path / "study.json").exists() and not (path / "imported.csv").exists():
        raise DataError(f"{path} is a study with runs of its own; give another --name")


def imported_table(path: Path) -> Table:
    """The results that were imported into a study, which someone else may have sent."""
    file = path / "imported.csv"
    table = parse_csv(read_imported(path), str(file))
    if missing := sorted(OUR_COLUMNS - set(table.columns)):
        raise DataError(f"{file} has no columns {', '.join(missing)}; import the results again")
    if "seconds" not in table:  # of published runs
        table = table.assign(seconds=float("nan"))
    return _described(table, file, numbers=("seed", "seconds"))


def _described(table: Table, file: Path, numbers: Sequence[str] = ("seed",)) -> Table:
    """A table under our names, checked."""
    if not len(table):
        raise DataError(f"{file} has no rows")
    _check_columns(table, file, texts=("model", "setting", "data"), numbers=numbers)
    return table.assign(**{name: "" for name in ("value", "run") if name not in table})


def _read(file: Path) -> Table:
    table = read_csv(file)
    if OUR_COLUMNS <= set(table.columns):
        return _described(table, file)
    needed = {"model_name", "dataset", "model_random_seed"}
    if not needed <= set(table.columns):
        raise DataError(
            f"{file} has no columns {', '.join(sorted(needed))}; give the published files or what "
            "`untwine study results --csv` writes"
        )
    if not len(table):
        raise DataError(f"{file} has no rows")
    return _renamed(table, file)


def _check_columns(table: Table, file: Path, texts: Sequence[str], numbers: Sequence[str]) -> None:
    """Refuse columns of another type than declared, and names and seeds that are missing."""
    from pandas.api.types import is_numeric_dtype

    for name in numbers:
        if not is_numeric_dtype(table[name]) or table[name].dtype.kind not in "iuf":
            raise DataError(f"the column {name} of {file} must hold numbers")
    for name in (*texts, numbers[0]):
        if table[name].isna().any():
            raise DataError(f"the column {name} of {file} has empty cells; fill them")
    for name in texts:
        if is_numeric_dtype(table[name]):
            raise DataError(f"the column {name} of {file} must hold names, not numbers")


def _renamed(table: Table, file: Path) -> Table:
    """Published columns under our names."""
    import pandas as pd

    unknown = sorted(map(str, set(table["model_name"]) - set(MODELS)))
    if unknown:
        raise DataError(f"{file} has models of unknown names: {', '.join(unknown)[:200]}")
    columns = {MODELS[str(name)][1] for name in table["model_name"]}
    if missing := sorted(columns - set(table.columns)):
        raise DataError(f"{file} has no columns {', '.join(missing)}, which its models need")
    scores = [name for name in SCORES if name in table]
    _check_columns(table, file, ("dataset",), ("model_random_seed", *columns, *scores))
    parts: list[Table] = []
    for theirs, group in table.groupby("model_name", sort=False):
        model, column, parameter = MODELS[str(theirs)]
        values = group[column].map("{:g}".format)
        described = pd.DataFrame(
            {
                "model": model,
                "setting": model + f" {parameter}=" + values,
                "value": group[column],
                "data": group["dataset"].replace(DATA),
                "seed": group["model_random_seed"],
                "run": group.index.map(lambda i, m=model, f=file.name: f"{m} {f}:{i}"),
            }
        )
        scores = group[[name for name in SCORES if name in group]].rename(columns=SCORES)
        parts.append(pd.concat([described, scores], axis=1))
    renamed = pd.concat(parts)
    assert set(renamed.columns) >= set(DESCRIPTION) - {"seconds"}
    return renamed
