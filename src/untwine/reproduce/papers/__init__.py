"""A folder per paper: its items, measures and exhibits."""
