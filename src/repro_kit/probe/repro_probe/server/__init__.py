"""The server: a process that has imported torch (the zygote), and a child for each query."""
