"""Bundle: render repro.py, prove it in a clean process, redact, describe and pack."""
