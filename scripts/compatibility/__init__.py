"""Try repro-kit with many builds of torch, and write what works with each."""
