"""Sources of builds, and how a build is made ready to run: indexes, wheels, interpreters, commits."""
