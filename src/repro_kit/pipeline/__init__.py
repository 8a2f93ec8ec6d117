"""The pipeline: its stages in order, when the result of a stage is stale, and the summary at the end."""
