"""Cells: each cell is one way to compile the subject, with a verdict."""
