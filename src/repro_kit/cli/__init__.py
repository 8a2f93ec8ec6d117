"""The command line: one file per command; parses, calls a stage, prints."""
