"""Code that came from elsewhere: opened, shown, agreed to, and run as a stranger would run it."""
