"""Numbers that the page and the Python side share: those of page/constants.js.

The names with COPY concern only the static copy, which holds a limited number of answers.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

PAGE = files("untwine.explore") / "page"


def read_constants(text: str) -> dict[str, int]:
    """The constants in the text of constants.js: the JSON object between its braces.

    >>> read_constants('// shared\\nconst CONSTANTS = {"frames": 11};')
    {'frames': 11}
    """
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


_CONSTANTS = read_constants((PAGE / "constants.js").read_text(encoding="utf-8"))

COPY_FRAMES: Final = _CONSTANTS["copyFrames"]  # of a traversal; every second one is a page's frame
N_EXAMPLES: Final = _CONSTANTS["examples"]  # in a list of examples or reconstructions
COPY_STARTS: Final = _CONSTANTS["copyStarts"]  # examples to start from
COPY_DRAWS: Final = _CONSTANTS["copyDraws"]  # codes drawn from the prior to start from
PATH_STEPS: Final = _CONSTANTS["pathSteps"]  # images from one example to another
COPY_PATH_EXAMPLES: Final = _CONSTANTS["copyPathExamples"]  # examples with paths between them
GROUP_ROWS: Final = _CONSTANTS["groupRows"]  # of a grid of groups
GROUP_COLUMNS: Final = _CONSTANTS["groupColumns"]
COPY_GROUP_SEEDS: Final = _CONSTANTS["copyGroupSeeds"]  # grids of groups for each cluster
CLUSTER_IMAGES: Final = _CONSTANTS["clusterImages"]  # drawn for each cluster
SHEET_COLUMNS: Final = _CONSTANTS["sheetColumns"]  # of the sheet of all examples
COPY_DOTS: Final = _CONSTANTS["copyDots"]  # of the space
DECIMALS: Final = _CONSTANTS["decimals"]  # of a number in an address
MAX_CODE_VALUE: Final = float(_CONSTANTS["maxCodeValue"])  # of any number of a code
