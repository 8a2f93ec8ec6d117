"""What is private in a text, and the tokens that take its place."""
