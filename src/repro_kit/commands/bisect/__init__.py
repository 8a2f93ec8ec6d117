"""The `bisect` command: judge builds until the first bad build is known."""
