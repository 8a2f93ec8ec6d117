"""``python -m repro_kit``."""

import os
import sys

if __name__ == "__main__":
    if sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109 - a file of the user's there may hide a module that pathlib needs
        del sys.path[0]
    from repro_kit.cli.main import main

    main()
