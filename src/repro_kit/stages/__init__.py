"""The stages of the pipeline. A stage reads and writes the case; stages share nothing else."""
