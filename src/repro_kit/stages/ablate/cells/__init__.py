"""Cells: one way to compile the subject each, judged once."""
