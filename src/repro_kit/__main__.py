"""``python -m repro_kit``."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, where a file of the user's may hide a module that is needed here
    from repro_kit.cli.main import main

    main()
