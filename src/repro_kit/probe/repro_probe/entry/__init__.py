"""Start the probe in a process of the user: by orders (boot), or from the user's program (watch)."""
