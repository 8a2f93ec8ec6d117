"""The bundle: rendered, redacted, listed and packed. Nothing here starts a process."""
