"""One file per metric: a pure function of arrays, for codes of any origin.

The names of a metric's positional arguments say what it needs: `codes`, `factors`, `images`,
`reconstructions`. Everything else is keyword-only with a default.
"""

from untwine.registry import import_all, metrics

import_all(__name__, globals(), metrics)
