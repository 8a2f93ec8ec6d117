"""What every room of the probe uses."""
