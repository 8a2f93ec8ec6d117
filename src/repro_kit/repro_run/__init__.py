"""Untrusted code: repro-kit opens and shows it, asks for consent, and runs it in a clean environment."""
