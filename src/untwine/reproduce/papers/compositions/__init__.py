"""Models made of parts of several papers."""
