"""One file per dataset: what it is and where it comes from."""

from untwine.registry import datasets, import_all

import_all(__name__, globals(), datasets)
