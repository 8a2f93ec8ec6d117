"""What goes on the PYTHONPATH of the user's interpreter."""
