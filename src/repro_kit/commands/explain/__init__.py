"""The `explain` command: explains a log, a case, or a new run of a script."""
