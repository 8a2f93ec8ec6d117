"""Run processes: the user's command, and the server that judges programs."""
