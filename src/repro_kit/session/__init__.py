"""What stages and commands share in one run of repro-kit: options, signals, oracles, and three subpackages."""
