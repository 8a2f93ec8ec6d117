"""What stages and commands share about one run of repro-kit: options, signals, the script, the final check."""
