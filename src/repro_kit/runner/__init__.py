"""Processes: the user's command, and the oracle."""
