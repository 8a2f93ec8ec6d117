"""The case on disk: everything known about one failure."""
