"""Processes with torch that the probe did not see make a run doubtful, unless torch itself starts them."""

import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from repro_kit.runner.subject_start import ProcessesWithoutProbe

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which libraries a process has loaded"),
]

#: What torch runs to find out which vector instructions the CPU has, and a process of somebody else's.
TEST_OF_THE_CPU = 'from ctypes import cdll\ncdll.LoadLibrary("{library}")'
OTHER = 'import ctypes\nctypes.CDLL("{library}")'
_WAIT = "\nprint(flush=True)\nimport time\ntime.sleep(60)"


def test_torchs_own_test_of_the_cpu_compiles_nothing(tmp_path: Path) -> None:
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    library = Path(torch.origin).with_name("lib") / "libtorch_cpu.so"
    seen = ProcessesWithoutProbe()
    with ExitStack() as stack:
        for code in (TEST_OF_THE_CPU, OTHER):
            words = [sys.executable, "-c", code.format(library=library) + _WAIT]
            child = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            stack.callback(child.kill)
            assert child.stdout is not None
            child.stdout.readline()
        seen.look(time.monotonic())
    (unseen,) = seen.without_probe(tmp_path)
    assert "import ctypes" in unseen
