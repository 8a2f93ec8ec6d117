"""The texts and pages that are made of a story."""
