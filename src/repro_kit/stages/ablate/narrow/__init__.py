"""Narrow: from the failing cell to graph, subsystem, operator and setting."""
