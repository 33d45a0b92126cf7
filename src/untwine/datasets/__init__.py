"""One file per dataset: its reader or renderer, and its source."""

from untwine.registry import datasets, import_all

import_all(__name__, globals(), datasets)
