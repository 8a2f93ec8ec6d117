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


@pytest.mark.parametrize("own", ["", "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(0, 99)"])
def test_a_hang_leaves_the_stacks_of_its_processes(tmp_path: Path, own: str) -> None:
    code = f"import os, signal\n{own}\nimport torch\ndef forever():\n    while True: pass\nos.fork()\nforever()\n"
    case = case_of(tmp_path / "hang", code)
    (tmp_path / "hang" / "torch.py").write_text("__version__ = '0'\n")
    ended = run_subject(case, SubjectRun(tmp_path / "out", why="a test", timeout=8))
    assert ended.timed_out
    stacks = [path.read_text() for path in (tmp_path / "out" / "probe").glob("stack-*.txt")]
    assert [faulthandler_stack(text)[-1].function for text in stacks if text] == ["forever", "forever"]


def test_the_timer_of_the_stack_is_gone_with_the_program(tmp_path: Path) -> None:
    code = "import os, torch\nos.execv('/bin/sleep', ['sleep', '99'])\n"
    case = case_of(tmp_path / "other", code)
    (tmp_path / "other" / "torch.py").write_text("__version__ = '0'\n")
    ended = run_subject(case, SubjectRun(tmp_path / "out", why="a test", timeout=4))
    assert ended.timed_out and ended.signal is None


def test_a_run_gets_private_caches_that_are_gone_afterwards(tmp_path: Path) -> None:
    code = "import os, pathlib\nprint(os.environ['TORCHINDUCTOR_CACHE_DIR'])\nos.chdir('/')\n"
    case = case_of(tmp_path / "my 'own' \"$x;#%ä", code)
    ran = run_subject(case, SubjectRun(tmp_path / "out", why="a test", timeout=30))
    assert ran.ok
    used = Path((tmp_path / "out" / "stdout.txt").read_text().strip())
    assert is_harmless(used) and not used.exists()
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != str(used)
