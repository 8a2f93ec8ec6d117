"""The probe's import hook, in an interpreter of its own."""

import subprocess
import sys

from root import ROOT

PROBE = ROOT / "src" / "repro_kit" / "probe"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROBE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_callback_for_a_module_is_called_once_and_after_it_was_executed() -> None:
    out = run(
        "from repro_probe.common.imports import when_imported\n"
        "when_imported('json.tool', lambda m: print('one', hasattr(m, 'main')))\n"
        "when_imported('json.tool', lambda m: print('two', m.__loader__ is m.__spec__.loader))\n"
        "import json.tool, importlib\n"
        "print(type(json.tool.__loader__).__name__)\n"
    )
    assert out.splitlines() == ["one True", "two True", "SourceFileLoader"]


def test_a_program_may_ask_first_whether_there_is_such_a_module() -> None:
    out = run(
        "from repro_probe.common.imports import before_import, when_imported\nimport importlib.util\n"
        "before_import('json.tool', lambda: print('before'))\n"
        "when_imported('json.tool', lambda m: print('after'))\n"
        "print(importlib.util.find_spec('json.tool').name)\nimport json.tool\n"
    )
    assert out.split() == ["before", "json.tool", "after"]


def test_a_module_that_is_there_already_is_seen_at_once() -> None:
    assert (
        run("from repro_probe.common.imports import when_imported\nwhen_imported('sys', lambda m: print(m.__name__))")
        == "sys\n"
    )


def test_a_module_that_does_not_exist_stays_an_import_error() -> None:
    out = run(
        "from repro_probe.common.imports import when_imported\n"
        "when_imported('no_such_module', print)\n"
        "try:\n    import no_such_module\nexcept ImportError as error:\n    print(error)\n"
    )
    assert out == "No module named 'no_such_module'\n"


def test_no_garbage_is_collected_during_a_watched_import_and_the_users_choice_stays(tmp_path) -> None:
    (tmp_path / "watched.py").write_text("import gc\nprint(gc.isenabled())\n")
    for choose, after in (("", "True"), ("gc.disable()", "False")):
        out = run(
            f"import gc, sys\nsys.path.append({str(tmp_path)!r})\n{choose}\n"
            "from repro_probe.common.imports import when_imported\n"
            "when_imported('watched', lambda module: None)\n"
            "import watched\nprint(gc.isenabled())\n"
        )
        assert out.split() == ["False", after]
