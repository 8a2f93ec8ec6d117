"""Bundle: render repro.py, check it in a clean process, redact, describe and pack."""
