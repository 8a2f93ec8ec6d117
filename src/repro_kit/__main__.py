"""``python -m repro_kit``."""

from repro_kit.cli.main import main

if __name__ == "__main__":
    main()
