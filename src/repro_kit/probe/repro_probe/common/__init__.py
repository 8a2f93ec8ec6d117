"""Modules that all other packages of the probe use."""
