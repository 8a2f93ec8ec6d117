"""Where the probe enters a process of the user's: boot and watch."""
