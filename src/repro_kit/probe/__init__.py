"""The directory to put on the PYTHONPATH of the user's interpreter."""
