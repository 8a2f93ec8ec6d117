"""What a run of the user's command shows: its failures, a symptom, and whether the compiler is at fault."""
