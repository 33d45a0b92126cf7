"""Scores of models and of codes."""
