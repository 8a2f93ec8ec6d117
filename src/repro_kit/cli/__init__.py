"""The command line: one file for each command; parses, calls a stage, prints."""
