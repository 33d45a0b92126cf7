"""Parts and helpers that several papers use."""
