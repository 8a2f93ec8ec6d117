"""Failures and their signatures: what went wrong in a run, and when two failures are the same."""
