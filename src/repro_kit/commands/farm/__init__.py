"""The `farm` command: many cases over many builds."""
