"""Builds that are wheels: indexes, files, the cache, and the installation."""
