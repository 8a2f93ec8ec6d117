"""The command line: the commands, which parse, call a stage or another command, and print."""
