"""HTML pages: of a run, of a study."""
