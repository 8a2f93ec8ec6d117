"""What a query can ask of a program."""
