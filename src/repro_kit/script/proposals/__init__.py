"""What passes over a script propose: edits by the number of a node."""
