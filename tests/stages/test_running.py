import os
import sys
from pathlib import Path

from repro_kit.case import Case, Subject
from repro_kit.stages.running import run_subject


def case_of(tmp_path: Path, code: str) -> Case:
    tmp_path.mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text(code)
    subject = Subject("script", (str(script),), str(tmp_path), sys.executable)
    return Case.create(tmp_path / "case.repro", subject, "2026-01-01T00:00:00+00:00")


def test_a_crash_at_the_deadline_is_the_dump_of_the_stack(tmp_path: Path) -> None:
    code = "import os, signal, time\ntime.sleep({})\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    late = run_subject(case_of(tmp_path / "late", code.format(1.9)), tmp_path / "a", timeout=2.5)
    assert late.timed_out
    assert late.signal is None
    early = run_subject(case_of(tmp_path / "early", code.format(0)), tmp_path / "b", timeout=30)
    assert early.signal == "SIGSEGV"
    assert not early.timed_out


def test_a_run_gets_private_caches_that_are_gone_afterwards(tmp_path: Path) -> None:
    code = "import os, pathlib\nprint(os.environ['TORCHINDUCTOR_CACHE_DIR'])\nos.chdir('/')\n"
    case = case_of(tmp_path / "own", code)
    ran = run_subject(case, tmp_path / "out", timeout=30)
    assert ran.ok
    used = Path((tmp_path / "out" / "stdout.txt").read_text().strip())
    assert used.is_relative_to(case.path.absolute())
    assert not used.exists()
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != str(used)
