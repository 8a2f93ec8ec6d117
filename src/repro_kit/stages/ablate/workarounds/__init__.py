"""Workarounds: what makes the script work now."""
