"""What stages and commands share in one run of repro-kit: the path of a case, oracles, signals, findings."""
