"""Cases on builds: the unit and its result, the search over builds, and the store of results."""
