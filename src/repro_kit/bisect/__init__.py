"""Find the first build that fails: the search, the builds, and the judgements on them. The package is pure."""
