"""Pieces that two or more papers use."""
