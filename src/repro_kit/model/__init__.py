"""The words of the project as typed, frozen, serializable data."""
