"""Ablate: vary how the subject is compiled, and name the layer at fault."""
