"""The passes over a graph: each proposes edits, and the search judges them."""
