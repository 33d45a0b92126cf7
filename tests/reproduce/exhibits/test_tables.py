"""The table beside the paper's, on made-up runs."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd

from untwine.reproduce.exhibits.tables import mean_and_spread, table
from untwine.spec import plan


def evidence():
    run = plan("beta-vae", "sprites(size=16)", settings=["beta=16"], network="mlp")
    rows = pd.DataFrame({"run": "r", "seed": [0, 1], "mig": [0.1, 0.2], "sap": [0.5, 0.7]})
    return SimpleNamespace(
        table=lambda study: rows,
        select=lambda study, runs: rows,
        has=lambda study, runs: runs == "beta-vae",
        runs=lambda study: {"r": run},
        heading=lambda study: "sprites",
    )


def test_columns_without_a_number_of_the_paper_say_whose_they_are():
    columns = {"MIG (%)": "100 * mig", "SAP": ["other", "sap"], "DCI": "dci"}
    rows = {
        "β-VAE": {"runs": "beta-vae", "paper": [12.5]},
        "Data": {"paper": [50.0]},
        "Not trained": {"runs": "vae"},
    }
    (section,) = table(evidence(), study="s", columns=columns, rows=rows)
    assert section.header == ("", "here", "MIG (%), paper", "ours", "SAP, ours")
    first, data = section.rows
    assert first == ("β-VAE", "beta-vae beta=16", "12.5", "15.0 ± 7.1", "0.600 ± 0.141")
    assert data[:3] == ("Data", "", "50.0")
    assert "over 2 seeds" in section.sentence


def test_a_row_says_its_number_of_latents_where_the_study_has_several():
    made_up, (name, spec) = evidence(), ("r", evidence().runs("s")["r"])
    made_up.runs = lambda study: {name: spec, "wider": replace(spec, latent=2 * spec.latent)}
    rows = {"β-VAE": {"runs": "beta-vae"}}
    (section,) = table(made_up, study="s", columns={"SAP": "sap"}, rows=rows)
    assert section.rows[0][1] == f"beta-vae beta=16 latent={spec.latent}"


def test_digits_follow_the_size_of_a_number():
    shown = [
        mean_and_spread(pd.Series(v)) for v in ([0.0, 0.0], [1.5], [123.0, 125.0], [1e-3, 3e-3])
    ]
    assert shown == ["0", "1.5", "124 ± 1", "0.0020 ± 0.0014"]
