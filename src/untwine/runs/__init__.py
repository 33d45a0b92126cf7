"""A run is a directory: train it, open it, describe it."""
