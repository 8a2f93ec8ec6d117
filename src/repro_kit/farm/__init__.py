"""A farm: many cases over many builds. History, lifecycle and grouping; the package starts no process."""
