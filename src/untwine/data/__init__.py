"""Building blocks of datasets, and opening a dataset by name."""
