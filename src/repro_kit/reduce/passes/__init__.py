"""Passes propose edits for one kind of shrinking. To add one: a function of `Search`, and a line in minify.py."""
