"""One file per paper: its new part and its recipe."""

from untwine.registry import import_all, models

import_all(__name__, globals(), models)
