"""What the commands print and file beside what the stages say."""
