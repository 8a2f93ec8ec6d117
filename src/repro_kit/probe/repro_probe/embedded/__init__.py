"""Modules that repro-kit also writes, as text, into other programs: the standard library and torch alone."""
