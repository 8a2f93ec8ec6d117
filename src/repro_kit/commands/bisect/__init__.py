"""The `bisect` command: judge builds until the first bad one is known."""
