"""The `explain` command: a trace, a case or a run of the script explained."""
