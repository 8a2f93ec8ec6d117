"""What a bundle tells, as data: the one source of all its texts."""
