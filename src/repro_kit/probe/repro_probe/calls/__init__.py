"""Observe, time and compare the user's compiled calls."""
