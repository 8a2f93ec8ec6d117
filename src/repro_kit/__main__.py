"""``python -m repro_kit``, and the command ``repro-kit``."""

import signal
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command line. Until it is imported, Ctrl-C ends the process without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from repro_kit.cli.main import main

    signal.signal(signal.SIGINT, handler)
    main()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, where a file of the user's may hide a module that is needed here
    run()
