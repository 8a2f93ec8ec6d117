"""Make programs of what torch has written or recorded: graphs, artifacts of a trace, scripts of its minifier."""
