"""Decide whether a compiled result is wrong: compare it with eager, and judge each difference again."""
