"""Pictures: the graph, and the course of a reduction."""
