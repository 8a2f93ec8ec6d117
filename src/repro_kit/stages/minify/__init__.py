"""Minify: reduce the captured program while it fails alike."""
