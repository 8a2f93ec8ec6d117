"""What is told of a script that cannot run on this machine, since a compiler, disk space, memory … is missing."""

from __future__ import annotations

import resource
import subprocess

from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Failure, Kind
from repro_kit.model.failure.missing_resource import COMPILER, missing_resource, refused_by_compiler, remedy
from repro_kit.model.failure.signature import in_words, signature_of
from repro_kit.runner import supervised
from repro_kit.runner.scratch import scratch
from repro_kit.session.stop import Stop

_SECONDS = 120  # for a program of two lines
_PROGRAM = "#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n"


def lacks_resource(failure: Failure) -> Stop | None:
    """The end of the work where `failure` is the machine's: torch.compile has no part in it; None for any other."""
    lacking = missing_resource(failure)
    refused = refused_by_compiler(failure)
    if not lacking and refused and (said := _refuses_everything(refused[0])):
        return _stop(COMPILER, f"{refused[0]} cannot compile a program of two lines: {said}")
    if not lacking and failure.kind is Kind.OOM and (limit := _memory_limit()):
        lacking = f"memory: its limit is {limit / 2**30:.1f} GiB"
    return _stop(lacking, in_words(signature_of(failure), failure)) if lacking else None


def _stop(lacking: str, seen: str) -> Stop:
    return Stop(
        Exit.CANNOT_RUN,
        f"This machine lacks {lacking}, so nothing can be said of the compiler: {seen}. {remedy(lacking)}, and run the"
        " same command again with --fresh.",
    )


def _refuses_everything(compiler: str) -> str:
    """The last words of the C++ compiler where it cannot compile the simplest program; empty where it can."""
    with scratch() as directory:
        source = directory / "program.cpp"
        source.write_text(_PROGRAM, encoding="utf-8")
        try:
            command = [compiler, "-x", "c++", str(source), "-o", str(directory / "program")]
            done = supervised.run(command, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return (lines[0] if lines else f"exit status {done.returncode}") if done.returncode else ""


def _memory_limit() -> int:
    """The bytes that a process of this user's may have, by a limit that the shell has set; 0 without one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return 0 if limit == resource.RLIM_INFINITY else limit
