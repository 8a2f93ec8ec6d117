"""Builds that are commits of a local clone."""
