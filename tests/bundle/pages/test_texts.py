"""Texts without torch: settings, program and script scripts, the issue's log, judging an output."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.artefact import recipe_code
from repro_kit.bundle.facts import Facts, without_private
from repro_kit.bundle.pages import markdown
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.repro.check_program import read_run
from repro_kit.bundle.repro.script_repro import pattern, render_script
from repro_kit.bundle.repro.source_files import find_sources
from repro_kit.case.case import Subject
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.answers import GeneratedKernel
from repro_kit.failure.failure import ExceptionLink, Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.recipe import Autocast, Recipe

ENV = Environment(python="3.11.7", executable="/usr/bin/python3", platform="Linux", torch="2.13.0")


def facts(signature, failure=None):
    return Facts(signature, failure, ENV)


def test_a_name_of_the_script_is_its_backend_unless_torch_has_one_of_that_name():
    named = {"mine", "eager"}
    assert recipe_code.compile_call(Recipe(backend="mine"), "graph", named) == "torch.compile(graph, backend=mine)"
    assert recipe_code.compile_call(Recipe(backend="eager"), "graph", named) == 'torch.compile(graph, backend="eager")'


def test_everything_of_a_recipe_is_written():
    recipe = Recipe(
        backend="eager", mode="max-autotune", options={"a": float("inf")}, dynamic=False, fullgraph=True, threads=2,
        memory=9, default_dtype="float64", autocast=Autocast("cuda", "float16"), grad_mode="no_grad",
        graph_caches=False, fallback_random=True, config={"shapes.x": (1,)}, rtol=0.5,
    )  # fmt: skip
    assert recipe_code.compile_call(recipe, "graph", ()) == (
        'torch.compile(graph, backend="eager", mode="max-autotune", options={"a": float("inf")}, '
        "dynamic=False, fullgraph=True)"
    )
    limit = "resource.setrlimit(resource.RLIMIT_AS, (9, 9))"
    lines = ["torch.set_num_threads(2)", "torch.set_default_dtype(torch.float64)"]
    assert recipe_code.process_lines(recipe) == [limit, *lines]
    assert recipe_code.forward_regions(recipe) == 'torch.no_grad(), torch.autocast("cuda", dtype=torch.float16)'
    assert "torch.fx.experimental._config.x = (1,)" in recipe_code.config_lines(recipe)
    assert "torch._inductor.config.fallback_random = True" in recipe_code.config_lines(recipe)
    assert "torch._functorch.config.enable_autograd_cache = False" in recipe_code.config_lines(recipe)
    assert recipe_code.tolerances(recipe).startswith("rtol=0.5, atol=0.0")


@pytest.mark.parametrize(
    ("exit_status", "output", "status", "kind"),
    [
        (0, "PASS\n", Status.PASS, None),
        (125, "CANNOT RUN: no torch\n", Status.CANNOT_TELL, None),
        (1, "FAIL timeout: no end after 60 s\n", Status.FAIL, Kind.TIMEOUT),
        (1, "FAIL timeout: the ranks wait for each other: rank 0 in x\n", Status.FAIL, Kind.DEADLOCK),
        (1, "FAIL crash: SIGSEGV\n", Status.FAIL, Kind.CRASH),
        (
            1,
            "FAIL accuracy: Tensor-likes are not close!\n\nMismatched elements: 3 / 4\n",
            Status.FAIL,
            Kind.ACCURACY,
        ),
        (1, "gibberish\n", Status.FAIL, None),
        (2, "usage\n", Status.CANNOT_TELL, None),
        (None, "", Status.CANNOT_TELL, None),
    ],
)
def test_an_output_is_read(exit_status, output, status, kind):
    verdict = read_run(exit_status, output, "exit")
    assert verdict.status is status
    assert (verdict.failure.kind if verdict.failure else None) is kind


def test_a_hang_of_ranks_is_told_by_where_they_wait_and_not_by_what_they_print():
    waits = "the ranks wait for each other: rank 0 in gloo:all_reduce, rank 1 in gloo:barrier"
    verdict = read_run(
        1, f"x.py:1: UserWarning: no numpy\nFatal Python error: Aborted\nFAIL timeout: {waits}\n", "exit"
    )
    told = facts(Signature(Kind.DEADLOCK), verdict.failure)
    assert told.failure_line == f"the run does not end: {waits}"


def test_the_pattern_of_a_failure_leaves_numbers_addresses_and_paths_open():
    message = "size 12 of <X at 0x7f00> in /tmp/a/b.py (max 0.25)"
    failure = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("a.b.MyError", message),))
    found = pattern(facts(Signature(Kind.RUNTIME_ERROR), failure))
    assert re.search(found, "x\na.b.MyError: size 13 of <X at 0x7fff> in /var/c.py (max 1e-3)\n")
    assert not re.search(found, "MyError: shape 12 of <X at 0x7f00> in /tmp/a/b.py (max 0.25)")


def test_the_pattern_of_a_failure_leaves_the_name_of_the_script_open():
    failure = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink("E", "Recompiling function f in script.py:4"),))
    found = pattern(facts(Signature(Kind.DYNAMO_ERROR), failure))
    assert re.search(found, "E: Recompiling function f in /elsewhere/files/reduced.py:7")
    assert not re.search(found, "E: Recompiling function g in /elsewhere/files/reduced.py:7")


def test_of_a_long_log_the_lines_up_to_the_error_are_left():
    log = "\n".join([*(f"line {at}" for at in range(100)), "ValueError: no", *(f"after {at}" for at in range(100))])
    trimmed = markdown.trim(log, 12)
    assert "ValueError: no" in trimmed and "line 99" in trimmed and "after 5" in trimmed and "after 9" not in trimmed
    assert len(trimmed.splitlines()) == 14 and trimmed.startswith("[… 95 lines left out …]\n")
    native = "\n".join([*["noise"] * 50, "x.cpp:8:21: error: bad", *["noise"] * 50, "ValueError: no"])
    assert "x.cpp:8:21: error: bad" in markdown.trim(native, 9)
    quoted = markdown.trim(
        "\n".join(["x.cpp:8:21: error: bad", "    8 | bad!;", "      | ^", *["In file included"] * 50]), 9
    )
    assert quoted == "x.cpp:8:21: error: bad\n    8 | bad!;\n      | ^\n[… 50 lines left out …]"
    assert markdown.trim("a\nb", 2) == "a\nb" and markdown.trim("a\nb", 1) == "a\nb", "the remark is a line"
    assert markdown.trim("a\nb\nc", 1) == "[… 2 lines left out …]\nc"
    cut = markdown.shown_kernel(GeneratedKernel("relu", "cpp", "a\nb\nc"), 2)
    assert cut is not None and cut.heading == "The generated kernel `relu`, 1 more line is not here:"
    usual = "a\nint inductor_cpu_integer_div_error;\nb\nc\nd"
    cut = markdown.shown_kernel(GeneratedKernel("relu", "cpp", usual, marked=4, why="half"), 3)
    assert cut is not None and cut.text == "a\nb\nc  // <-- half" and ", 2 more lines are not here" in cut.heading
    braces = markdown.shown_kernel(
        GeneratedKernel("relu", "cpp", "void f()\n{\n  {\n    a\n    b\n    store\n  }\n}"), 3
    )
    assert braces is not None and braces.text == "void f()\n    b\n    store", "where the result is computed"
    declared = GeneratedKernel("relu", "cpp", "void f()\n{\n  a\n  a\n  b\n}", marked=4, why="half")
    twice = markdown.shown_kernel(declared, 4)
    assert twice is not None and twice.text == "void f()\n  a\n  a  // <-- half\n  b", "the second, as it is marked"
    whole = markdown.shown_kernel(GeneratedKernel("relu", "cpp", usual), 5)
    assert whole is not None and whole.text == usual, "nothing is left out where there is room"


def test_compiler_warnings_do_not_hide_the_error():
    log = "a.h:1:2: warning: bad\n  1 | x\n    | ^\nmain.cpp:9:1: error: no\n  9 | y\nend"
    assert markdown.without_warnings(log) == "main.cpp:9:1: error: no\n  9 | y\nend\n[1 warning left out]"


def test_what_differs_from_run_to_run_is_evened_out():
    assert markdown.steady("Aborted\n\nExtension modules: torch._C (total: 1)\nend\n") == "Aborted\n\nend\n"
    assert (
        markdown.steady("[rank0]:W1120 17:29:56.3 4244 torch/x.py] at 0x7f0011223344") == "[rank0]:torch/x.py] at 0x…"
    )


def tree(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")


def test_files_of_a_script_with_its_imports_in_their_places(tmp_path):
    cwd, other = tmp_path / "proj", tmp_path / "elsewhere"
    tree(cwd, "tools/train.py", "tools/model.py", "src/pkg/__init__.py", "src/pkg/layer.py", "unused.py")
    tree(other, "shared/__init__.py", "shared/util.py")
    (cwd / "tools/train.py").write_text("import model\nfrom pkg import layer\nimport torch\n")
    subject = Subject("script", ("tools/train.py", "--lr", "1"), str(cwd), "python")
    modules = [str(cwd / "src/pkg/__init__.py"), str(cwd / "src/pkg/layer.py"), str(other / "shared/util.py")]
    sources = find_sources(subject, modules)
    assert sorted(sources.files) == [
        "lib/shared/util.py", "src/pkg/__init__.py", "src/pkg/layer.py", "tools/model.py", "tools/train.py",
    ]  # fmt: skip
    assert sources.argv == ("tools/train.py", "--lr", "1") and set(sources.roots) == {"lib", "src"}


@pytest.mark.parametrize(
    ("form", "argv", "expected"),
    [
        ("script", ("a.py", "x y"), '[sys.executable, "a.py", "x y"]'),
        ("module", ("pkg.run", "-v"), '[sys.executable, "-m", "pkg.run", "-v"]'),
        ("command", ("/venv/bin/pytest", "a.py::t"), '[installed("pytest"), "a.py::t"]'),
        ("command", ("python3.11", "a.py"), '[sys.executable, "a.py"]'),
    ],
)
def test_the_command_of_a_script_bundle(tmp_path, form, argv, expected):
    subject = Subject(form, argv, str(tmp_path), "python")
    known = facts(Signature(Kind.DYNAMO_ERROR, ("Unsupported",)))
    text = render_script(subject, find_sources(subject, []), known, why="", limit=9, traced=form == "module")
    ast.parse(text)
    assert f"command = {expected}" in text and "NOT MINIMIZED" in text


def test_what_was_redacted_is_open_in_the_pattern_and_no_piece_of_it_stands_in_a_text():
    token = "hf_" + "a1B2c3" * 12
    failure = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("ValueError", f"{'x' * 140} {token} denied"),))
    told = without_private(facts(Signature(Kind.RUNTIME_ERROR, message=token), failure), Redactor())
    assert "a1B2" not in told.failure_line + told.signature.message + pattern(told)
    near = replace(failure, exceptions=(ExceptionLink("ValueError", f"no {token} in /home/eve/x.py"),))
    told = without_private(facts(Signature(Kind.RUNTIME_ERROR), near), Redactor([("/home/eve", "<home>")]))
    assert re.search(pattern(told), f"ValueError: no {token} in /elsewhere/x.py")
