"""Capture: find the recorded graph that fails like the subject when the graph runs alone."""
