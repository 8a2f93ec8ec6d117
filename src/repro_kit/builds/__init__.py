"""Where builds come from, and how one is made ready to run: indexes, wheels, interpreters, commits."""
