"""Narrow: from the failing cell to the graph, the subsystem, the operator and the setting at fault."""
