"""The zygote: a process that has imported torch, and a child for each query."""
