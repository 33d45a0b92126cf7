"""Likelihoods p(x|w), by name."""

from untwine.registry import import_all, likelihoods

import_all(__name__, globals(), likelihoods)
