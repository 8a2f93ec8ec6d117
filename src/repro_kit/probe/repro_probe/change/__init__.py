"""Change from outside how an unmodified script compiles."""
