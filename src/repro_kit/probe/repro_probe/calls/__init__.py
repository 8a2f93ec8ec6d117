"""The user's compiled calls: observed, timed, compared."""
