"""Run a program, and keep what can be compared."""
