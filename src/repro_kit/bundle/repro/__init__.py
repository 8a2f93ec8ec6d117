"""`repro.py`: how it is written, and what its output says."""
