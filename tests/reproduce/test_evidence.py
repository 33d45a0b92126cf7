"""What our runs found: on which data, and what that stands in for."""

from types import SimpleNamespace

import pandas as pd

from untwine.reproduce.evidence import Evidence
from untwine.reproduce.trial import own_scores

PAIR = "mixed(first={}, second={})"


def heading(used, *data):
    evidence = Evidence(SimpleNamespace(item=None, stand_ins=used, folders={}))
    evidence.table = lambda study: pd.DataFrame({"data": data})
    return evidence.heading("study")


def test_a_heading_says_what_stands_in_for_what():
    assert heading({"celeba": "faces(size=64)"}, "faces") == "faces, a stand-in for CelebA"
    assert heading({}, "faces") == "faces"


def test_data_made_of_other_data_is_told_apart_by_all_its_words():
    real, other = PAIR.format("cars3d", "chairs3d"), PAIR.format("sprites", "digits")
    assert heading({real: other}, other) == f"{other}, a stand-in for {real}"
    assert heading({real: other}, PAIR.format("sprites", "faces")).endswith("second=faces)")


def test_data_of_several_studies_are_named_once():
    evidence = Evidence(SimpleNamespace(item=None, stand_ins={}, folders={}))
    tables = {"first": ["circle", "star"], "again": ["star", "clusters"]}
    evidence.table = lambda study: pd.DataFrame({"data": tables[study]})
    assert evidence.heading("first", "again") == "circle; star; clusters"


def test_scores_of_other_studies_of_the_same_runs_are_left_out():
    nan = float("nan")
    scores = {
        "fid[stretch]": [50.0, nan],
        "frechet.distance": [9.5, 8.5],
        "levels.class": [0.1, 0.2],
    }
    table = pd.DataFrame({"model": "vae", "run": ["a", "b"], **scores})
    own = own_scores(["fid[stretch]"], table)
    assert list(own) == ["model", "run", "fid[stretch]", "levels.class"] and list(own["run"]) == [
        "a"
    ]
    assert list(own_scores(["frechet", "fid[stretch]"], table)["run"]) == ["a", "b"]
    assert own_scores(["mig"], table).empty
