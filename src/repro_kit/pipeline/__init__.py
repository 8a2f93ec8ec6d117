"""The stages in order: which there are, when a result is stale, and the summary at the end."""
