"""Statistics over studies: known answers, the published tables, and the report."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from untwine.cli.main import app
from untwine.errors import DataError, ParameterError, RunError, UnknownNameError
from untwine.report.published import restrict_to_data, restrict_to_values, which_values
from untwine.report.study import sections, write_study_report
from untwine.study import comparisons, inference, statistics
from untwine.study.file import Study, read_study
from untwine.study.folder import StudyFolder, make_folder, open_folder
from untwine.study.published import import_published
from untwine.study.selection import best_runs
from untwine.study.summary import format_summary, summary_table
from untwine.study.table import add_notes, results_table

FIVE = list(statistics.STANDARD_SCORES)


def table(seeds=8):
    """Two models of two settings; b is better by 0.5, larger values by 0.1 more."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "model": model,
            "setting": f"{model} beta={value}",
            "value": value,
            "data": data,
            "seed": seed,
            "run": f"{model}-{value}-{data}-{seed}",
            "mig": base + 0.1 * value + 0.01 * rng.standard_normal(),
            "sap[svm]": rng.random(),
            "reconstruction.squared_error": 1.0 + value + 0.01 * seed,
        }
        for model, base in (("a", 0.0), ("b", 0.5))
        for value in (1, 2)
        for data in ("x", "y")
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def test_scores_are_the_numbers_that_vary():
    assert statistics.standard_scores(table()) == ["mig", "sap[svm]"]
    assert "seed" not in statistics.score_names(table().assign(constant=1.0))
    assert "constant" not in statistics.score_names(table().assign(constant=1.0))


def test_variance_is_shared_between_model_parameter_and_seed():
    shares = statistics.variance_shares(table(), "mig")
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["model"] > 0.9 and shares["parameter"] > 10 * shares["seed"]
    noise = statistics.variance_shares(table(), "sap[svm]")
    assert noise["seed"] > 0.7


def test_paired_comparisons_find_the_better_model_and_no_more():
    found = comparisons.compare_pairs(table(), "mig").iloc[0]
    assert found["difference"] == pytest.approx(-0.5, abs=0.02) and found["p"] < 0.01
    assert found["low"] < found["difference"] < found["high"] and found["pairs"] == 8
    assert comparisons.compare_pairs(table(), "sap[svm]").iloc[0]["p"] > 0.01


def test_five_seeds_can_decide_and_intervals_agree_with_p():
    five = table(seeds=5)
    three = pd.concat([five, five[five["model"] == "b"].assign(model="c", mig=lambda t: t["mig"])])
    three.loc[three["model"] == "c", "mig"] += np.random.default_rng(1).normal(0, 0.01, 20)
    for score in ("mig", "sap[svm]"):
        pairs = comparisons.compare_pairs(three, score)
        excludes = (pairs["low"] > 0) | (pairs["high"] < 0)
        assert (excludes == (pairs["p"] < 0.05)).all() and (
            excludes == (pairs["better"] != "")
        ).all()
    pairs = comparisons.compare_pairs(three, "mig").set_index(["first", "second"])
    assert pairs.loc[("a", "b"), "better"] == "b" and pairs.loc[("b", "c"), "better"] == ""
    assert (comparisons.compare_pairs(five, "reconstruction.squared_error")["better"] == "").all()


@pytest.mark.parametrize("tests", [1, 3, 10])
def test_intervals_at_the_levels_of_holm_exclude_zero_where_it_rejects(tests):
    rng = np.random.default_rng(tests)
    for _ in range(50):
        values = rng.normal(rng.uniform(0, 1.5, (tests, 1)), 1, (tests, 6))
        p = np.array([inference.p_value(row) for row in values])
        for row, level, corrected in zip(
            values, inference.holm_levels(p), inference.holm(p), strict=True
        ):
            low, high = inference.interval(row, 1 - level)
            assert (low > 0 or high < 0) == (corrected < 0.05)


def test_the_plan_says_what_the_study_will_show():
    study = read_study("constrained-vaes", "laptop")
    sentence = comparisons.power_sentence(study)
    assert sentence.startswith("6 models, compared in 15 pairs: 3 seeds will show differences of")
    assert inference.power(inference.visible_effect(7, 0.01), 7, 0.01) == pytest.approx(0.9)


def test_the_table_of_a_paper_marks_the_best_and_its_ties():
    found = summary_table(table(seeds=5), ["mig", "sap[svm]"])
    row = found[(found["data"] == "x") & (found["score"] == "mig")].set_index("setting")
    values = table(seeds=5).query("data == 'x' and setting == 'b beta=2'")["mig"]
    assert row.loc["b beta=2", "rank"] == "best" and (row["rank"] == "best").sum() == 1
    assert row.loc["b beta=2", "sd"] == pytest.approx(values.std()) and (row["n"] == 5).all()
    assert (found[found["score"] == "sap[svm]"]["rank"] == "tied").any()
    latex = format_summary(found, "latex")
    assert latex.count(r"\\") == 9 and latex.count(r"\textbf{") == 4 and r"$\pm$" in latex
    lines = format_summary(found, "markdown").splitlines()
    assert (
        lines[0] == "| data | setting | n | MIG | SAP [svm] |"
        and sum("**" in x for x in lines) >= 2
    )
    assert format_summary(found, "csv").splitlines()[0].endswith("n,low,high,p,rank,unreliable")
    with pytest.raises(ParameterError, match="by setting or model"):
        summary_table(table(), by="seed")
    with pytest.raises(UnknownNameError, match="did you mean 'mig'"):
        statistics.check_scores(table(), ["mog"])


def doubtful():
    """A table in which the log-likelihood of one setting has few effective draws."""
    runs = table(seeds=3)
    draws = np.where(runs["setting"] == "a beta=1", 4.0, 40.0)
    more = {"log-likelihood": runs["mig"] - 80, "log-likelihood.effective_draws": draws}
    return runs.assign(**more, **{"log-likelihood.bits_per_dimension": 1 - runs["mig"]})


def test_log_likelihoods_of_few_effective_draws_are_marked_in_every_table():
    runs = doubtful()
    assert statistics.reported_scores(runs).count("log-likelihood") == 1
    assert not any("effective" in n or "bits" in n for n in statistics.reported_scores(runs))
    assert not statistics.higher_is_better("log-likelihood.bits_per_dimension")
    summary = summary_table(runs, ["mig", "log-likelihood"])
    marked = summary[summary["unreliable"] > 0]
    assert set(marked["setting"]) == {"a beta=1"} and set(marked["score"]) == {"log-likelihood"}
    lines = format_summary(summary, "markdown").splitlines()
    assert [("‡" in line) for line in lines if "beta=1" in line and "a " in line] == [True, True]
    latex = format_summary(summary, "latex")
    assert "unreliable" in lines[-1] and r"$^\ddagger$" in latex
    assert "−79" in lines[2] and "& $-$79" in latex  # a minus, not a hyphen
    notes = add_notes(runs)["note"]
    assert set(notes[runs["setting"] == "a beta=1"]) == {"log-likelihood is unreliable"}
    assert set(notes[runs["setting"] != "a beta=1"]) == {""}
    assert "note" not in add_notes(table())
    page = {section.name: section for section in sections(runs, None)}
    assert any("unreliable in 6 of 24 runs" in point for point in page["learned"].points)
    assert any("(unreliable)" in row[1] for row in page["recommendations"].rows)


def test_what_was_learned_names_each_outcome_once():
    one = table(seeds=5)
    one = one[one["data"] == "x"].assign(**{"dci.disentanglement": one["mig"] * 2})
    points = next(s for s in sections(one, None) if s.name == "learned").points
    assert sum("all others are significantly worse" in point for point in points) == 2
    assert any("MIG and DCI disentanglement" in point for point in points)
    assert sum("No difference" in point for point in points) == 1


def test_holm_is_monotone_and_never_above_one():
    assert comparisons.holm(np.array([0.5, 0.9, 0.01])).tolist() == [1.0, 1.0, pytest.approx(0.03)]


def test_intervals_cover_the_mean_and_shrink_with_more_values():
    rng = np.random.default_rng(0)
    few, many = (statistics.interval(rng.standard_normal(n)) for n in (10, 1000))
    assert few[1] - few[0] > 3 * (many[1] - many[0]) and many[0] < 0 < many[1]


def test_coverage_of_the_interval_is_near_its_promise():
    rng = np.random.default_rng(1)
    hit = [
        low < 0 < high
        for low, high in (statistics.interval(rng.standard_normal(30)) for _ in range(300))
    ]
    assert 0.88 < np.mean(hit) < 0.99


def test_recommendations_name_the_best_setting_and_its_ties():
    found = comparisons.recommendations(table(), ["mig", "sap[svm]"])
    clear = found[(found["score"] == "mig")]
    assert set(clear["setting"]) == {"b beta=2"} and (clear["tied"] == 0).all()
    assert (found[found["score"] == "sap[svm]"]["tied"] > 0).any()


def test_recommendations_of_errors_are_the_lowest():
    found = comparisons.recommendations(table(), ["reconstruction.squared_error"])
    assert all("beta=1" in setting and "beta=2" not in setting for setting in found["setting"])
    for score in ("reconstruction loss", "kl", "fid"):
        assert not statistics.higher_is_better(score)


def test_settings_that_are_equal_have_no_winner():
    found = comparisons.recommendations(table().assign(mig=0.5), ["mig"])
    assert set(found["setting"]) == {"all are equal"} and found["tied"].isna().all()


def test_one_seed_tells_no_uncertainty():
    assert np.isnan(statistics.interval(np.array([1.0]))).all()
    found = {section.name: section for section in sections(table(seeds=1), None)}
    assert "One seed" in found["recommendations"].sentence
    assert found["recommendations"].rows[0][3].endswith("[–]")
    assert found["recommendations"].rows[0][5] == "–"
    assert "one seed" in found["learned"].points[0]
    assert "One seed" in found["variance"].sentence and "One seed" in found["by-seed"].sentence


def test_the_other_scores_follow_the_usual_ones():
    more = table().assign(**{"modularity": table()["mig"], "dci.informativeness_train": 0.1})
    more["mig at 0.5"] = more["kl"] = more["udr"] = more["dci.informativeness_train"] = more["mig"]
    assert statistics.standard_scores(more) == ["mig", "sap[svm]", "modularity"]


def test_rank_correlation_is_of_the_runs_that_have_both():
    part = table()
    part.loc[part.index[::3], "mig"] = np.nan
    part.loc[part["data"] == "y", "mig"] = np.nan
    pair = ["mig", "reconstruction.squared_error"]
    there: statistics.Table = part[pair].dropna()
    expected = there.rank().corr().iloc[0, 1]
    assert statistics.rank_correlation(part, pair).iloc[0, 1] == pytest.approx(expected)


def test_the_report_bears_a_dataset_of_one_run_and_scores_that_are_missing():
    whole = table()
    few = whole[(whole["data"] == "x") | (whole["run"] == "a-1-y-0")]
    missing = whole.assign(mig=whole["mig"].where(whole["data"] == "x"))
    for part in (few, missing):
        found = {section.name: section.sentence for section in sections(part, None)}
        assert "nan" not in "".join(found.values()) and "correlation" in found


def test_datasets_are_compared_by_scores_of_one_direction():
    fid = table().assign(fid=1000 * (table()["model"] == "b") + table()["sap[svm]"])
    found = {section.name: section.sentence for section in sections(fid, None)}
    assert "b leads" in found["by-data"] and "fid" not in found["by-data"]
    only = fid[[*fid.columns[:6], "fid"]]
    assert "a leads" in next(s.sentence for s in sections(only, None) if s.name == "by-data")


def test_settings_of_several_numbers_have_no_slope():
    several = table().assign(setting=table()["setting"] + " c=" + (table()["seed"] % 2).map(str))
    assert np.isnan(statistics.slope(several[several["model"] == "a"], "mig"))
    shown = next(s for s in sections(several, None) if s.name == "by-value-mig")
    assert "Rank correlation" not in shown.sentence and shown.figure is not None
    assert shown.figure.axes[0].get_xticklabels()[0].get_text() == "beta=1 c=0"


def test_slope_is_the_rank_correlation_with_the_value():
    assert statistics.slope(table()[table()["model"] == "a"], "mig") > 0.8
    assert np.isnan(statistics.slope(table()[table()["value"] == 1], "mig"))


def saved(tmp_path, rows):
    (tmp_path / "mine.csv").write_text(rows.to_csv(index=False))
    folder, count = import_published([tmp_path / "mine.csv"], "mine", tmp_path)
    assert count == len(rows)
    return folder


def test_the_report_draws_every_figure_and_says_what_it_shows(tmp_path):
    folder = saved(tmp_path, table())
    page = write_study_report(folder, published=folder)
    text = page.read_text()
    for name in (
        "by-model",
        "by-data",
        "by-value-mig",
        "by-seed",
        "correlation",
        "variance",
        "comparisons",
        "trade-off",
    ):
        assert (page.parent / "figures" / f"{name}.svg").stat().st_size > 1000
        assert f'id="{name}"' in text
    assert "Best mean: b by MIG" in text and "64 runs" in text
    assert "<script" not in text and 'src="' not in text and "<link" not in text


def test_published_runs_are_those_on_the_same_data():
    behind = pd.DataFrame({"data": ["dsprites", "cars3d"]})
    ours = pd.DataFrame({"data": ["sprites(size=32)"]})
    assert list(restrict_to_data(behind, ours)["data"]) == ["dsprites"]
    assert len(restrict_to_data(behind, pd.DataFrame({"data": ["faces"]}))) == 2


def test_published_boxes_are_of_our_values():
    values = [1.0, 3.0, 3.0, 1.0]
    behind = pd.DataFrame({"model": ["a", "a", "b", "c"], "value": values})
    behind["setting"] = behind["model"] + " beta=" + behind["value"].map("{:g}".format)
    varying = pd.DataFrame({"model": ["a", "b"], "value": ["1", "2"]})
    single = pd.DataFrame({"model": ["a", "b"], "value": ["", ""], "set.beta": [1.0, 2.0]})
    for ours in (varying, single):
        runs, others = restrict_to_values(behind, ours)
        assert list(runs["value"]) == [1.0, 3.0] and others == ["b"]
        assert which_values(runs, others) == "at our parameter values (b: at all)"
    assert which_values(runs, []) == "at our parameter values"


def test_a_study_with_runs_is_not_written_over(tmp_path):
    make_folder(Study("own", (), ()), tmp_path)
    (tmp_path / "mine.csv").write_text(table().to_csv(index=False))
    with pytest.raises(DataError, match="runs of its own"):
        import_published([tmp_path / "mine.csv"], "own", tmp_path)
    with pytest.raises(ParameterError, match="plain name"):
        import_published([tmp_path / "mine.csv"], "../own", tmp_path)
    for _ in range(2):
        import_published([tmp_path / "mine.csv"], "mine", tmp_path)


def test_a_report_of_runs_without_differences_is_refused(tmp_path):
    same = table().assign(mig=0.5).drop(columns=["sap[svm]", "reconstruction.squared_error"])
    with pytest.raises(DataError, match="nothing to report"):
        write_study_report(saved(tmp_path, same))


def test_best_names_the_run_to_use(tmp_path):
    folder = saved(tmp_path, table())
    header, rows, sentence = best_runs(folder, "mig")
    assert rows[0][0] == "b beta=2" and "use b-2-" in sentence and header[2] == "mean mig"
    _, rows, _ = best_runs(folder, "reconstruction.squared_error")
    assert rows[0][0].endswith("beta=1")
    with pytest.raises(DataError, match="has no codes"):
        best_runs(folder, "udr")
    with pytest.raises(UnknownNameError, match="did you mean 'mig'"):
        best_runs(folder, "mog")


def test_best_tells_of_every_dataset_and_sorts_by_the_number(tmp_path):
    small = table().assign(mig=lambda t: 1e-7 * t["mig"], udr=0.5)
    _, rows, sentence = best_runs(saved(tmp_path, small), "mig")
    assert [row[1] for row in rows] == ["x"] * 4 + ["y"] * 4 and rows[0][2].endswith("e-08")
    assert [row[0] for row in rows[:2]] == ["b beta=2", "b beta=1"]
    assert "on x\nuse b-2-y" in sentence


def test_best_names_no_winner_where_all_are_equal(tmp_path):
    folder = saved(tmp_path, table().assign(udr=0.5))
    _, _, sentence = best_runs(folder, "udr")
    assert sentence.splitlines()[0].startswith("all 4 settings have the same mean udr on x")
    assert "use" not in sentence and "correlation" not in sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("a,b\n1,2\n", "no columns"), ("", "must begin with the names"), (None, "there is no file")],
)
def test_files_that_hold_no_results_are_refused(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "x.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        import_published([tmp_path / "x.csv"], "x", tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\n", "must begin with the names"),
        (b"a,b\n1,2\n", "has no columns data"),
        (b"model,setting,data,seed\n", "has no rows"),
        (b"model,setting,data,seed\nx,x,x,y\n", "must hold numbers"),
        (b"\xff\xfe,\0", "has no columns|is not a CSV"),
        (b"model,setting,data,seed\n,x,x,0\n", "has empty cells"),
    ],
)
def test_imported_results_of_someone_else_are_checked(tmp_path, content, sentence):
    path = make_folder(Study("x", (), ()), tmp_path, imported=content).path
    with pytest.raises(DataError, match=sentence):
        results_table(path)


def test_imported_results_that_were_changed_are_named(tmp_path):
    (tmp_path / "mine.csv").write_text(table().to_csv(index=False))
    path = import_published([tmp_path / "mine.csv"], "x", tmp_path)[0].path
    assert CliRunner().invoke(app, ["study", "results", str(path)]).exit_code == 0
    file = path / "imported.csv"
    file.write_text(file.read_text().replace("0", "1", 1))
    with pytest.raises(RunError, match=r"imported\.csv is damaged"):
        results_table(path)


def test_a_file_given_twice_is_refused(tmp_path):
    (tmp_path / "mine.csv").write_text(table().to_csv(index=False))
    with pytest.raises(DataError, match="twice"):
        import_published([tmp_path / "mine.csv"] * 2, "x", tmp_path)


def test_a_study_without_results_says_so(tmp_path):
    with pytest.raises(DataError, match="no run of empty is scored"):
        results_table(StudyFolder(tmp_path, Study("empty", (), ())))
    with pytest.raises(DataError, match="there is no study at nowhere"):
        open_folder("nowhere", tmp_path)


@pytest.fixture(scope="module")
def published(shared, tmp_path_factory):
    files = sorted(shared("data/constrained-vae-study").glob("*.csv.gz"))
    folder, count = import_published(files, "published", tmp_path_factory.mktemp("studies"))
    assert count == 10_800
    return results_table(folder)


def rounded(value):
    return f"{value:.3f}"


MODELS = ["beta-vae", "annealed-vae", "factor-vae", "beta-tcvae", "dip-vae-i", "dip-vae-ii"]
TABLE_S2 = """
0.792/0.801 0.626/0.616 0.120/0.113 0.044/0.039 0.207/0.206
0.658/0.675 0.500/0.527 0.073/0.048 0.023/0.013 0.115/0.094
0.799/0.800 0.675/0.638 0.128/0.116 0.047/0.042 0.223/0.230
0.805/0.817 0.653/0.639 0.134/0.137 0.047/0.048 0.237/0.263
0.789/0.792 0.618/0.593 0.067/0.045 0.028/0.017 0.127/0.105
0.781/0.793 0.577/0.560 0.082/0.053 0.039/0.020 0.140/0.115
"""
TABLE_S3 = """
dsprites 0.369 0.312 0.412 0.421 0.307 0.318
colour-dsprites 0.380 0.333 0.410 0.409 0.311 0.311
noisy-dsprites 0.253 0.256 0.279 0.245 0.272 0.229
scream-dsprites 0.331 0.086 0.286 0.322 0.244 0.265
smallnorb 0.369 0.250 0.401 0.386 0.392 0.404
cars3d 0.446 0.407 0.458 0.467 0.430 0.415
"""


def test_scores_by_model_as_published(published):
    found = statistics.summary(published, ["model"], FIVE).set_index(["model", "score"])
    for model, line in zip(MODELS, TABLE_S2.split("\n")[1:-1], strict=True):
        for score, cell in zip(FIVE, line.split(), strict=True):
            row = found.loc[(model, score)]
            assert f"{rounded(row['mean'])}/{rounded(row['median'])}" == cell, (model, score)


def test_scores_by_dataset_as_published(published):
    grid = statistics.mean_by_dataset(published, FIVE)
    for line in TABLE_S3.split("\n")[1:-1]:
        data, *cells = line.split()
        assert [rounded(grid.loc[data, model]) for model in MODELS] == cells, data


@pytest.mark.parametrize(
    ("model", "value", "cells"),
    [
        ("beta-vae", 1, "0.816 0.647 0.075 0.046 0.145 18.667"),
        ("beta-vae", 16, "0.823 0.645 0.263 0.052 0.393 113.128"),
        ("annealed-vae", 5, "0.865 0.601 0.352 0.076 0.379 148.059"),
        ("factor-vae", 50, "0.848 0.753 0.174 0.066 0.264 54.255"),
        ("beta-tcvae", 2, "0.854 0.715 0.150 0.064 0.246 26.407"),
    ],
)
def test_scores_by_value_as_published(published, model, value, cells):
    group = published[
        (published["data"] == "dsprites")
        & (published["model"] == model)
        & (published["value"] == value)
    ]
    found = [rounded(group[name].mean()) for name in [*FIVE, "reconstruction loss"]]
    assert found == cells.split() and len(group) == 50


def test_beta_by_dataset_as_published(published):
    beta = published[published["model"] == "beta-vae"]
    grid = beta.pivot_table(index="data", columns="value", values="dci.disentanglement")
    assert [f"{v:.3f}" for v in grid.loc["cars3d"]] == "0.155 0.194 0.256 0.294 0.344 0.387".split()
    assert [f"{v:.3f}" for v in grid.loc["noisy-dsprites"]] == (
        "0.053 0.072 0.109 0.153 0.146 0.129".split()
    )


def test_spread_over_seeds_as_published(published):
    group = published[
        (published["setting"] == "beta-vae beta=16") & (published["data"] == "dsprites")
    ]
    found = statistics.summarise(group["mig"].to_numpy())
    assert (rounded(found["mean"]), rounded(group["mig"].std())) == ("0.263", "0.111")
    assert (rounded(found["least"]), rounded(found["most"])) == ("0.041", "0.389")
