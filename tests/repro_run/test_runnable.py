"""What of a bundle runs: what was shown, from a directory that holds nothing else and is not on `sys.path`."""

import io
import os
import sys
from pathlib import Path

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.repro_run.running import run_repro
from repro_kit.repro_run.untrusted import ask, copy_runnable, opened
from repro_kit.ui import Ui


def laid_out(place: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


def copied(tmp_path: Path, files: dict[str, bytes]) -> tuple[set[str], tuple[str, ...]]:
    runs = copy_runnable(laid_out(tmp_path / "a", {"repro.py": b"", **files}), tmp_path / "b")
    there = {path.relative_to(tmp_path / "b").as_posix() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert there == {*runs.texts, *runs.values}
    return there, runs.left_out


def test_only_the_script_its_text_files_and_its_values_are_copied(tmp_path: Path) -> None:
    there, left_out = copied(
        tmp_path,
        {
            "files/train.py": b"import helper\n", "files/pkg/__init__.py": b"", "files/data.txt": b"1\n",
            "inputs/a.pt": b"\0\1", "manifest.json": b"{}", "README.md": b"", "trace/a.log": b"",
            "torch.py": b"evil", "re/__init__.py": b"evil", "sitecustomize.py": b"evil", "x.pth": b"import evil",
            "inputs/json.py": b"evil", "inputs/deep/a.pt": b"", "files/x.so": b"\x7fELF\0\xff",
            "files/x.pyc": b"\xa7\r\r\n\0",
        },
    )  # fmt: skip
    assert there == {"repro.py", "files/train.py", "files/pkg/__init__.py", "files/data.txt", "inputs/a.pt"}
    assert sorted(it.partition(" ")[0] for it in left_out) == [
        "files/x.pyc", "files/x.so", "inputs/deep/a.pt", "inputs/json.py", "re/__init__.py", "sitecustomize.py",
        "torch.py", "x.pth",
    ]  # fmt: skip


def test_links_and_pipes_are_left_where_they_are(tmp_path: Path) -> None:
    place = laid_out(tmp_path / "a", {"repro.py": b"", "files/a.py": b""})
    (place / "files" / "link.py").symlink_to("/etc/passwd")
    (place / "files" / "folder").symlink_to("/etc")
    (place / "inputs").mkdir()
    (place / "inputs" / "x.pt").symlink_to("/dev/zero")
    os.mkfifo(place / "files" / "pipe.py")
    runs = copy_runnable(place, tmp_path / "b")
    assert runs.texts == ("repro.py", "files/a.py") and runs.values == ()
    assert len(runs.left_out) == 4 and "files/pipe.py is a pipe" in runs.left_out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"# coding: utf-7\n# +AAo-import os\n", "is in the encoding utf-7"),
        (b"# coding: raw_unicode_escape\n# \\u000aimport os\n", "is in the encoding raw_unicode_escape"),
        (b"# coding: no-such\n", "names an encoding that does not exist"),
        (b"\xff\xfe", "is not a text file"),
        (b"a = 1\0", "is not a text file"),
        (b"#" * (5 << 20), "is larger than 4 MiB"),
    ],
)
def test_a_script_that_python_reads_otherwise_than_a_person_is_refused(tmp_path: Path, text: bytes, why: str) -> None:
    place = laid_out(tmp_path / "a", {"repro.py": text})
    with pytest.raises(ReproKitError, match=why):
        copy_runnable(place, tmp_path / "b")
    there, left_out = copied(tmp_path / "other", {"files/a.py": text})
    assert there == {"repro.py"} and left_out == (f"files/a.py {why}",)


def test_nothing_beside_the_script_is_imported(tmp_path: Path) -> None:
    look = "import json, sys, colorsys, antigravity_of_mine\n"
    planted = {f"{name}.py": b"print('PLANTED')\n" for name in ("json", "colorsys", "antigravity_of_mine")}
    run = run_repro(sys.executable, laid_out(tmp_path / "a", {"repro.py": look.encode(), **planted}), timeout=60)
    assert "PLANTED" not in run.output and "No module named 'antigravity_of_mine'" in run.output


def test_a_script_sees_itself_as_python_would_start_it(tmp_path: Path) -> None:
    look = """
import inspect, json, multiprocessing, os, pathlib, pickle, sys
class Mine:
    def method(self): return 1
def child(queue): queue.put(__name__)
if __name__ == "__main__":
    assert not {"_code", "hook"} & set(globals()), sorted(globals())
    assert __file__ == sys.argv[0] and len(sys.argv) == 1 and pathlib.Path(__file__).name == "repro.py"
    assert "def method" in inspect.getsource(Mine) and pickle.loads(pickle.dumps(Mine())).method() == 1
    assert os.path.dirname(__file__) not in sys.path and "" not in sys.path
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == "__mp_main__"
    process.join()
    def fails():
        raise ValueError("boom")
    try:
        fails()
    except ValueError as error:
        raise RuntimeError("of it") from error
"""
    run = run_repro(sys.executable, laid_out(tmp_path / "a", {"repro.py": look.encode()}), timeout=120)
    assert run.verdict.failure and run.verdict.failure.exceptions, run.output
    assert "RuntimeError: of it" in run.output and "ValueError: boom" in run.output
    assert "<string>" not in run.output and "in <module>" in run.output, run.output


def test_all_that_runs_is_shown_or_counted(tmp_path: Path) -> None:
    files = {f"files/{name}.py": f"print({name!r})\n".encode() * 200 for name in "ab"}
    place = laid_out(tmp_path / "a", {"repro.py": b"x = 1\n", **files, "inputs/v.pt": b"\0", "torch.py": b""})
    out = io.StringIO()
    with opened(place) as bundle, pytest.raises(ReproKitError, match="Nothing was run"):
        ask(bundle, "python", Ui(out=out, err=out))
    shown = out.getvalue()
    assert "x = 1" in shown and shown.count("print('a')") == 200 and shown.count("print('b')") == 99
    assert "101 more lines of files/b.py" in shown and "inputs/v.pt" in shown
    assert "torch.py is not a file of a bundle; repro-kit leaves it out." in shown
