"""What the benches and some tests try repro-kit on: hostile files, texts and command lines, secrets, and scripts."""
