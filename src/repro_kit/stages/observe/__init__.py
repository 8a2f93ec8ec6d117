"""Observe: run the subject once, and say what failed."""
