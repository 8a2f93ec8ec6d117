"""The probe: repro-kit's code inside the user's interpreter. Standard library and torch only, Python 3.9 and up."""
