"""Workarounds: changes with which the script works."""
