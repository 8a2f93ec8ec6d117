"""Load and run a program, and keep its results for comparison."""
