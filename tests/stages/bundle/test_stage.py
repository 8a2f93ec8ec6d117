"""The stage and `verify` on real torch: render, prove in fresh interpreters, pack, unpack, run again."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

from programs import FAILING
from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import BundleResult, Capture, Environment, GitState, Observation, ObservedFailure
from repro_kit.commands.verify import verify
from repro_kit.errors import Exit, ReproKitError
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.options.builds import VerifyOptions
from repro_kit.options.stages import BundleOptions
from repro_kit.repro_run.running import check_repro
from repro_kit.stages.bundle.stage import run
from repro_kit.ui import SilentUi

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("repros_in_forks")]

TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
BACKEND_ERROR = next(it for it in FAILING if it.name == "backend_error")


def make_case(place: Path, argv, failure: Failure, signature: Signature, program: str | None = None) -> Case:
    case = Case.create(
        place / "x.repro", Subject("script", argv, str(place), sys.executable), "2030-01-01T00:00:00+00:00"
    )
    observed = (ObservedFailure(failure, signature),)
    case.write("observe/run.json", Observation(argv, 1, None, False, 5.0, 0, sys.executable, "2", observed))
    git = GitState(str(place), "c" * 40, "main", remotes=("https://git.example/x",))
    env = Environment("3.11", sys.executable, "Linux", "2.13.0+cpu", variables={"TORCH_LOGS": TOKEN}, git=git)
    case.write("env.json", env)
    case.record(StageRecord("observe", "done"))
    if program is not None:
        (case.path / "capture").mkdir()
        (case.path / "capture/program.py").write_text(program)
        case.write("capture/capture.json", Capture("program", "dynamo", 1, "0/0", 1, signature=signature))
        case.record(StageRecord("capture", "done"))
    case.update(signature=signature)
    return case


def texts(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


@pytest.mark.parametrize("failing", FAILING, ids=lambda it: it.name)
def test_each_kind_fails_with_its_signature_and_passes_in_eager(failing, tmp_path, few_runs):
    env = Environment("3.11", sys.executable, "Linux", "2.13.0")
    for name, text in render_program(parse(failing.text), Facts(failing.signature, None, env), whole=False).items():
        (tmp_path / name).write_text(text)
    check = check_repro(sys.executable, tmp_path, failing.signature, timeout=600)
    assert check.verified, (check.reasons, check.runs[-1].output)


def test_a_program_becomes_a_verified_private_reproducible_bundle(tmp_path, few_runs):
    signature = Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "ReluCompileError"))
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("ReluCompileError", ""),))
    case = make_case(tmp_path, ("x.py",), failure, signature, BACKEND_ERROR.text)
    run(case, BundleOptions(), SilentUi())
    result = case.read("bundle.json", BundleResult)
    assert result.verified and result.level == "program" and result.fails_with_signature and result.passes_in_eager
    archive = Path(result.path)
    assert archive == tmp_path / "x.repro.zip"
    files = texts(archive)
    assert files["repro.py"].strip() in files["issue.md"]
    assert all(TOKEN not in text and str(tmp_path) not in text for text in files.values())
    manifest = json.loads(files["manifest.json"])
    assert manifest["schema"] == 1 and {it["path"] for it in manifest["files"]} | {
        "manifest.json",
        "MANIFEST.sha256",
    } == {*files}
    before = archive.read_bytes()
    run(case, BundleOptions(), SilentUi())
    assert archive.read_bytes() == before

    def verdict(target: Path) -> Exit:
        return verify([target], VerifyOptions(sys.executable), SilentUi(yes=True))

    assert verdict(archive) is Exit.OK
    assert verdict(case.path) is Exit.OK
    manifest["signature"]["exceptions"] = ["Unsupported"]
    (case.path / "bundle/manifest.json").write_text(json.dumps(manifest))
    assert verdict(case.path) is Exit.FAILED
    (case.path / "bundle/repro.py").write_text(files["repro.py"].replace("import torch\n", "import no_torch\n"))
    assert verdict(case.path) is Exit.CANNOT_RUN
    (case.path / "bundle/repro.py").write_text(files["repro.py"].replace("relu_compile_error_TESTING_ONLY", "eager"))
    assert verdict(case.path) is Exit.NOTHING_FAILED


def test_foreign_code_is_not_run_unasked(tmp_path):
    (tmp_path / "repro.py").write_text("import pathlib\npathlib.Path('/nowhere/ran').touch()\n")
    with pytest.raises(ReproKitError, match="Nothing was run"):
        verify([tmp_path / "repro.py"], VerifyOptions(sys.executable), SilentUi())


def test_a_script_without_a_graph_becomes_a_script_level_bundle(tmp_path, few_runs):
    (tmp_path / "helper.py").write_text("def size(x):\n    torch_size = x.size()\n    return len(torch_size)\n")
    (tmp_path / "train.py").write_text(
        f"import sys\nimport torch\nimport helper\nAPI_TOKEN = '{TOKEN}'\n\n"
        "@torch.compile(fullgraph=True, backend='eager')\ndef step(x):\n"
        "    torch._dynamo.graph_break()\n    return x * helper.size(x)\n\n"
        "assert sys.argv[1] == '--fast'\nprint(step(torch.ones(3)))\n"
    )
    message = "Call to 'torch._dynamo.graph_break()': User-inserted graph break. Message: None"
    signature = Signature(Kind.DYNAMO_ERROR, ("Unsupported",), message)
    failure = Failure(
        Kind.DYNAMO_ERROR,
        exceptions=(ExceptionLink("torch._dynamo.exc.Unsupported", "Call to `torch._dynamo.graph_break()`\n  more"),),
    )
    case = make_case(tmp_path, ("train.py", "--fast"), failure, signature)
    run(case, BundleOptions(include_source=True), SilentUi())
    result = case.read("bundle.json", BundleResult)
    assert result.level == "script" and result.verified, result.reason
    files = texts(Path(result.path))
    assert {"files/train.py", "files/helper.py"} <= set(files)
    assert TOKEN not in "".join(files.values()) and "NOT MINIMIZED" in files["repro.py"]
    assert "Not minimized" in files["README.md"] and "Not minimized" in files["issue.md"]


def test_a_bundle_that_does_not_fail_says_so_loudly(tmp_path):
    healthy = BACKEND_ERROR.text.replace("relu_compile_error_TESTING_ONLY", "eager")
    (tmp_path / "x.py").write_text("print('well')\n")
    signature = Signature(Kind.COMPILE_ERROR, ("ReluCompileError",))
    case = make_case(tmp_path, ("x.py",), Failure(Kind.COMPILE_ERROR), signature, healthy)
    ui = SilentUi()
    run(case, BundleOptions(), ui)
    result = case.read("bundle.json", BundleResult)
    assert not result.verified and "passes in 3 of 3 runs" in result.reason
    files = texts(Path(result.path))
    assert "NOT VERIFIED" in files["README.md"] and "NOT VERIFIED" in files["issue.md"]
    assert any("NOT VERIFIED" in note for note in ui.notes)
