"""`python -m untwine` is the command `untwine`."""

from __future__ import annotations

from untwine.cli.main import main

if __name__ == "__main__":
    main()
