"""Observe: run the subject once, and report what failed."""
