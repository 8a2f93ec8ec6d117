"""Commands that are not stages: verify, show, explain, bisect, nightly, and what makes a case of a file."""
