"""The whole way of examples/leave_the_house.py, as a stranger would go it."""

import importlib.util
from pathlib import Path

import pandas as pd

EXAMPLE = Path(__file__).parents[2] / "examples" / "leave_the_house.py"


def test_a_model_leaves_the_house(tmp_path, capfd):
    spec = importlib.util.spec_from_file_location("leave_the_house", EXAMPLE)
    way = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(way)
    photos, new = tmp_path / "photos", tmp_path / "new"
    way.draw_photos(photos, range(200))
    way.draw_photos(new, range(200, 220))
    way.draw_noise(new)
    names = way.travel(tmp_path, photos, new)
    assert sorted(names[:5]) == [f"noise-{number}.png" for number in range(5)]
    codes = pd.read_csv(tmp_path / "codes.csv")
    assert list(codes["example"]) == sorted(path.name for path in new.iterdir())
    out, err = capfd.readouterr()
    assert "(2, 4) (3, 3, 16, 16)" in out and "'aspect': 'crop'" in out
    assert "likelihood: bernoulli, the default for images" in err
