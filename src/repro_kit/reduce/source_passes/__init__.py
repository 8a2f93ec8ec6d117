"""The passes over a source program: each proposes edits, and the search disposes."""
