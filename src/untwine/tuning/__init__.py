"""Searching for good parameters with Optuna."""
