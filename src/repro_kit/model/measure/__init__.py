"""Symptoms that raise nothing, and measurements of compiled calls."""
