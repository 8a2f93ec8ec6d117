"""The user's command: what it is, how it is run, and what on this machine has a say in it."""
