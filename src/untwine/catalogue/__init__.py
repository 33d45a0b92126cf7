"""Listings: registry entries, pairs of models, and the data on this machine."""
