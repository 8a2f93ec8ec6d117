"""Minify: reduce the captured program to a smaller one that fails alike."""
