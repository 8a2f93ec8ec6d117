import os
import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.model.failure.native import faulthandler_stack
from repro_kit.runner.places import is_harmless
from repro_kit.session.script.script_run import SubjectRun, run_subject


def case_of(tmp_path: Path, code: str) -> Case:
    tmp_path.mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text(code)
    subject = Subject("script", (str(script),), str(tmp_path), sys.executable)
    return Case.create(tmp_path / "case.repro", subject, "2026-01-01T00:00:00+00:00")


def test_the_timer_of_the_stack_is_no_crash(tmp_path: Path) -> None:
    code = "import os, signal, time\ntime.sleep({})\nos.kill(os.getpid(), signal.SIGALRM)\n"
    late = run_subject(
        case_of(tmp_path / "late", code.format(1.9)), SubjectRun(tmp_path / "a", why="a test", timeout=2.5)
    )
    assert late.timed_out
    assert late.signal is None
    early = run_subject(
        case_of(tmp_path / "early", code.format(0)), SubjectRun(tmp_path / "b", why="a test", timeout=30)
    )
    assert early.signal == "SIGALRM"
    assert not early.timed_out


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("own", ["", "signal.signal(signal.SIGALRM, lambda *_: None)\n", "signal.setitimer(0, 9)\n"])
def test_a_hang_leaves_its_stack_unless_the_program_uses_the_timer(tmp_path: Path, own: str) -> None:
    code = f"import signal\n{own}import torch\ndef forever():\n    while True: pass\nforever()\n"
    run_subject(case_of(tmp_path / "hang", code), SubjectRun(tmp_path / "out", why="a test", timeout=15))
    stacks = [path.read_text() for path in (tmp_path / "out" / "probe").glob("stack-*.txt")]
    assert [faulthandler_stack(text)[-1].function for text in stacks if text] == ([] if own else ["forever"])


def test_a_run_gets_private_caches_that_are_gone_afterwards(tmp_path: Path) -> None:
    code = "import os, pathlib\nprint(os.environ['TORCHINDUCTOR_CACHE_DIR'])\nos.chdir('/')\n"
    case = case_of(tmp_path / "my 'own' \"$x;#%ä", code)
    ran = run_subject(case, SubjectRun(tmp_path / "out", why="a test", timeout=30))
    assert ran.ok
    used = Path((tmp_path / "out" / "stdout.txt").read_text().strip())
    assert is_harmless(used) and not used.exists()
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != str(used)
