"""What the commands share: their options and who set them, the case they work on, how they fail."""
