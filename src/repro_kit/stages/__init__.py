"""The stages of the pipeline: each reads and writes a case, and shares nothing else with the others."""
