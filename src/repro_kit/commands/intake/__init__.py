"""Make a case of what is no user's script: a program file, or what `repro_kit.watch` left."""
