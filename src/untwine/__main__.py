"""`python -m untwine` is the command `untwine`."""

from untwine.cli import main

if __name__ == "__main__":
    main()
