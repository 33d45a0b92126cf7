"""The quantitative comparison of constrained VAEs."""
