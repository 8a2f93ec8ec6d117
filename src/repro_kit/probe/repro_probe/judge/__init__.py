"""Is a result wrong? Comparison with eager, and a second look at what differs."""
