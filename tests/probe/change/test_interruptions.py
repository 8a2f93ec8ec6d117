"""A hook, a handler or a limit of the program that makes the compiler raise is taken out; compiler errors stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.diagnosis.culprit import may_be_interrupted
from repro_kit.diagnosis.layer import INTERRUPTIONS
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.stages.ablate.special_contrasts import keeping

#: What a program does before `compiled` is called, and whether compiling fails without its interruptions as well.
PROGRAMS = {
    "callback": (
        "from torch._dynamo.callback import on_compile_start\n@on_compile_start\ndef forbid(args):\n    1 / 0\n",
        False,
    ),
    "callbacks of the handler": (
        "from torch._dynamo.callback import callback_handler as handler\n"
        "def forbid(args):\n    1 / 0\nhandler.register_end_callback(forbid)\n",
        False,
    ),
    "audit hook": (
        "import sys\ndef guard(event, args):\n    if event == 'exec':\n        1 / 0\nsys.addaudithook(guard)\n",
        False,
    ),
    "limit": ("import sys\nsys.setrecursionlimit(60)\n", False),
    "handler of a signal": (
        "import signal\ndef stop(*_):\n    1 / 0\nsignal.signal(signal.SIGVTALRM, stop)\n"
        "signal.setitimer(signal.ITIMER_VIRTUAL, 1e-3)\n",
        False,
    ),
    "the compiler": (
        "torch._dynamo.config.inject_BUILD_SET_unimplemented_TESTING_ONLY = True\n"
        "compiled = torch.compile(lambda x: x * len({1, x.dim()}), backend='eager', fullgraph=True)\n",
        True,
    ),
}
_IN_A_FORK = """
if not os.fork():
    try:
        exec({setup!r})
        compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
        exec(compile({program!r}, "/home/me/script.py", "exec"))
        compiled(torch.ones(2))
        print("passes", flush=True)
    except BaseException as error:
        print("fails", flush=True)
    finally:
        os._exit(0)
os.wait()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_what_interrupts_the_compiler_is_taken_out(tmp_path: Path) -> None:
    """All in one interpreter, in forks: importing the compiler takes most of the time."""
    pytest.importorskip("torch")
    script = ["import os, torch, torch._dynamo, torch.fx.experimental.symbolic_shapes"]
    expected: list[str] = []
    for program, stays in PROGRAMS.values():
        for setup in ("", keeping([INTERRUPTIONS])):
            script.append(_IN_A_FORK.format(setup=setup, program=program))
            expected.append("fails" if stays or not setup else "passes")
    command = [sys.executable, "-c", "\n".join(script)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.stdout.split() == expected, ran.stderr


COMPILES = Frame("/lib/site-packages/torch/_dynamo/convert_frame.py", 1, "compile")
CALLS = Frame("/lib/site-packages/torch/_dynamo/callback.py", 1, "run_start_callbacks")
MINE = Frame("/home/me/script.py", 1, "forbid")


@pytest.mark.parametrize(
    ("link", "may_be"),
    [
        (ExceptionLink("RuntimeError", "not here", (MINE, COMPILES, CALLS, MINE)), True),
        (ExceptionLink("RecursionError", "too deep", (MINE, COMPILES)), True),
        (ExceptionLink("RuntimeError", "a bug", (MINE, COMPILES)), False),
        (ExceptionLink("AssertionError", "results differ", (MINE,)), False),
    ],
)
def test_only_the_scripts_own_functions_and_limits_interrupt(link: ExceptionLink, may_be: bool) -> None:
    assert may_be_interrupted(Failure(Kind.RUNTIME_ERROR, exceptions=(link,))) is may_be
