"""The command `untwine`, a module per group of commands."""
