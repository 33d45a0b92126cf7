"""Contract checks for authors of parts: what every model, metric and dataset must do.

The tests of untwine itself run the same checks. They need no test framework:

>>> from untwine.testing import check_metric
>>> check_metric("mig")
"""

from untwine.testing.contracts import ContractBroken
from untwine.testing.datasets import check_dataset
from untwine.testing.metrics import check_metric
from untwine.testing.models import check_model, check_pair

__all__ = ["ContractBroken", "check_dataset", "check_metric", "check_model", "check_pair"]
