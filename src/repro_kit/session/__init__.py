"""What stages and commands share about one run of repro-kit: options, signals, oracles, and three rooms."""
