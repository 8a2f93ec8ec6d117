"""Builds to run a case on: interpreters, wheels and commits."""
