"""Record graphs, their inputs, and the state around their calls."""
