"""The script that a person runs: a program as plain Python that shows its failure by itself."""
