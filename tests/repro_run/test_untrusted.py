"""Bundles of strangers: what they are shown as, what their code gets, and what becomes of several at once."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.commands import verify as module
from repro_kit.commands.verify import Interpreter, verify
from repro_kit.errors import Exit, ReproKitError
from repro_kit.options.builds import VerifyOptions
from repro_kit.repro_run.untrusted import claim_of
from repro_kit.ui import SilentUi, Ui
from repro_kit.visible import visible

CLAIM = {
    "schema": 1,
    "torch": "2.13.0",
    "python": "3.11.1",
    "accelerator": "cuda",
    "limit": 5.0,
    "signature": {"kind": "runtime-error", "exceptions": ["ValueError"], "message": "boom"},
}
FAILS = "raise ValueError('boom')\n"
PASSES = "print('PASS')\n"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "facts_of", lambda python: Interpreter("3.11.1", "2.13.0", "Linux", None))


def bundle(path: Path, repro: str, **claim: object) -> Path:
    files = {"repro.py": repro.encode(), MANIFEST: orjson.dumps({**CLAIM, **claim})}
    pack(path, {**files, CHECKSUMS: checksums(files)})
    return path


@dataclass
class Said:
    exit: Exit
    data: dict


def run(*targets: Path, **how: object) -> Said:
    out = io.StringIO()
    ui = Ui(json=True, yes=True, out=out, err=io.StringIO())
    exit_code = verify(list(targets), replace(VerifyOptions(sys.executable), **how), ui)
    return Said(exit_code, json.loads(out.getvalue()))


def test_the_four_answers(tmp_path: Path) -> None:
    same = run(bundle(tmp_path / "a.zip", FAILS))
    assert (same.exit, same.data["answer"]) == (Exit.OK, "SAME")
    assert "accelerator here: none; the bundle was made with cuda" in same.data["differences"]
    other = run(bundle(tmp_path / "b.tar.gz", "raise KeyError('x')\n"))
    assert (other.exit, other.data["answer"]) == (Exit.FAILED, "OTHER")
    assert any("exceptions: ValueError expected, KeyError found" in it for it in other.data["unlike"])
    assert run(bundle(tmp_path / "c.zip", PASSES)).exit == Exit.NOTHING_FAILED
    cannot = run(bundle(tmp_path / "d.zip", "print('CANNOT RUN: no such device')\nraise SystemExit(125)\n"))
    assert cannot.exit == Exit.CANNOT_RUN and cannot.data["sentence"] == "no such device"


def test_a_difference_is_told_as_large_as_repro_py_shows_it(tmp_path: Path) -> None:
    """Not as large as that of the whole program, from which it was reduced."""
    message = (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 0.5 at index (0,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.2 at index (0,) (up to 1.3e-06 allowed)"
    )
    claimed = {"kind": "accuracy", "difference": "value", "magnitude": 0.41}
    same = run(bundle(tmp_path / "a.zip", f"raise AssertionError({message!r})\n", signature=claimed))
    assert same.data["answer"] == "SAME"
    assert same.data["sentence"].endswith(
        "as the bundle says: wrong result: values differ from eager's by 0.2 (relative)"
    )


def test_what_is_expected_is_success_and_what_cannot_run_is_neither(tmp_path: Path) -> None:
    fails, passes = bundle(tmp_path / "a.zip", FAILS), bundle(tmp_path / "b.zip", PASSES)
    assert [run(it, expect="fails").exit for it in (fails, passes)] == [Exit.OK, Exit.FAILED]
    assert [run(it, expect="passes").exit for it in (fails, passes)] == [Exit.FAILED, Exit.OK]
    assert run(fails, passes, expect="passes").exit == Exit.FAILED
    cannot = bundle(tmp_path / "c.zip", "print('CANNOT RUN: no such device')\nraise SystemExit(125)\n")
    assert run(cannot, expect="fails").exit == Exit.CANNOT_RUN


def test_foreign_code_gets_few_variables_and_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "planted")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # it changes how torch behaves, and belongs into the bundle
    look = (
        "import os, pathlib\n"
        "assert not {'MY_TOKEN', 'SSH_AUTH_SOCK', 'OMP_NUM_THREADS'} & set(os.environ), os.environ\n"
        f"assert pathlib.Path.home() != pathlib.Path({str(Path.home())!r})\n"
        "assert os.listdir('.') == []\n" + PASSES
    )
    assert run(bundle(tmp_path / "a.zip", look)).data["answer"] == "FIXED"


def test_limits_of_memory_time_and_output(tmp_path: Path) -> None:
    greedy = run(bundle(tmp_path / "a.zip", "import time\nx = b'1' * (400 << 20)\ntime.sleep(30)\n"), memory=0.2)
    assert greedy.data["answer"] == "CANNOT RUN HERE" and "GiB of memory" in greedy.data["sentence"]
    slow = run(bundle(tmp_path / "b.zip", "import time\ntime.sleep(60)\n"), timeout=1.0)
    assert slow.data["answer"] == "CANNOT RUN HERE" and "still running after" in slow.data["sentence"]
    flood = "import sys\nfor _ in range(200): sys.stdout.write('x' * 100_000 + '\\n')\n" + FAILS
    assert run(bundle(tmp_path / "c.zip", flood)).data["answer"] == "SAME"


def test_several_make_a_table_and_a_bad_one_stops_none(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"nothing")
    said = run(
        bundle(tmp_path / "a.zip", FAILS),
        tmp_path / "bad.zip",
        tmp_path / "gone.zip",
        bundle(tmp_path / "b.zip", PASSES),
    )
    assert [it["answer"] for it in said.data["results"]] == ["SAME", "REFUSED", "REFUSED", "FIXED"]
    assert said.exit == Exit.USAGE and "does not exist" in said.data["results"][2]["sentence"]
    assert run(tmp_path / "a.zip", tmp_path / "b.zip").exit == Exit.NOTHING_FAILED


def test_against_the_nightly_it_runs_with_the_nightlys_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "nightly" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    asked = []

    @contextmanager
    def newest(base: str | None, ui: Ui) -> Iterator[str]:
        asked.append(base)
        yield str(python)

    monkeypatch.setattr(module, "newest_nightly", newest)
    look = "import sys\nprint(sys.executable)\nassert 'nightly' in sys.executable\n" + PASSES
    assert run(bundle(tmp_path / "a.zip", look), against_nightly=True).data["answer"] == "FIXED"
    assert asked == [sys.executable]


def test_what_is_shown_obeys_no_terminal(tmp_path: Path) -> None:
    out = io.StringIO()
    target = bundle(tmp_path / "a.zip", "print(1)  # \x1b[2K\u202e hidden\r\n" + "x = 1\n" * 400)
    with pytest.raises(ReproKitError, match="Nothing was run"):
        verify([target], VerifyOptions(sys.executable), Ui(out=out, err=out))
    shown = out.getvalue()
    assert "\x1b[2K" not in shown and "\\x1b[2K\\u202e hidden" in shown
    assert "more lines of repro.py are not shown" in shown


def test_an_unpacked_bundle_that_was_changed_is_said_to_be(tmp_path: Path) -> None:
    files = {"repro.py": FAILS.encode(), MANIFEST: orjson.dumps(CLAIM)}
    for name, data in {**files, CHECKSUMS: checksums(files)}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "repro.py").write_text(PASSES)
    out = io.StringIO()
    with pytest.raises(ReproKitError, match="Nothing was run"):
        verify([tmp_path], VerifyOptions(sys.executable), Ui(out=out, err=out))
    assert "repro.py differs from the checksum in the bundle" in out.getvalue()


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"schema": 2}, "newer repro-kit"),
        ({"schema": "x"}, "damaged"),
        ({"limit": "long"}, "damaged"),
        ({"signature": []}, "damaged"),
        ({"signature": {"kind": "no-such-kind"}}, "damaged"),
    ],
)
def test_a_bad_manifest_is_one_sentence(tmp_path: Path, claim: dict, message: str) -> None:
    with pytest.raises(ReproKitError, match=message):
        verify([bundle(tmp_path / "a.zip", FAILS, **claim)], VerifyOptions(sys.executable), SilentUi(yes=True))


def test_a_bundle_cannot_ask_for_more_than_an_hour(tmp_path: Path) -> None:
    for asked, given in ((1e12, 3600.0), (-1, None), (20, 20.0)):
        (tmp_path / MANIFEST).write_bytes(orjson.dumps({**CLAIM, "limit": asked}))
        assert claim_of(tmp_path, tmp_path).limit == given


def test_visible_leaves_code_alone() -> None:
    assert visible("é = 'ü'\n\tx") == "é = 'ü'\n\tx"
