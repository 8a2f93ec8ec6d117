"""Answer the queries about a program."""
