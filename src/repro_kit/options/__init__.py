"""Every option, declared once; the command line, the configuration, the tools for agents and the docs use that."""
