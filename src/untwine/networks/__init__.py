"""Encoder and decoder pairs, by name."""

from untwine.registry import import_all, networks

import_all(__name__, globals(), networks)
