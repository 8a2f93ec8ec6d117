"""The `mcp` command: repro-kit's commands as tools of the Model Context Protocol."""
