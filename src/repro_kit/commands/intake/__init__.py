"""Make a case from a program file, or from what `repro_kit.watch` left, without a user's script to run."""
