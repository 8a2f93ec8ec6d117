"""Capture: find the recorded graph that fails like the subject when it runs alone."""
