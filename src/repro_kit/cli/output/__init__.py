"""What the commands print and file in addition to the output of the stages."""
