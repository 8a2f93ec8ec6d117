"""Record graphs, their inputs and what surrounds them."""
