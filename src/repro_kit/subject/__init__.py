"""The user's command: how it is recognised and run, and the environment that it runs in."""
