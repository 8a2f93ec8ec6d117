"""How runs end, and that nothing of them stays behind."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from texts import failing_backend, program, spoiling

pytestmark = pytest.mark.torch

LATE = """
import gc, os
gc.disable()
class Bomb:
    def __del__(self):
        os.abort()
def mine(gm, example_inputs):
    def run(*args):
        bomb = Bomb()
        bomb.itself = bomb
        return gm(*args)
    return run
"""


def check(oracle: ProgramOracle, text: str, inputs: Path | None = None, timeout: float = 600) -> Verdict:
    (verdict,) = oracle.check([text], inputs, timeout=timeout)
    return verdict


def failure_of(verdict: Verdict, status: Status) -> Failure:
    assert verdict.status is status, verdict
    assert verdict.failure is not None
    return verdict.failure


def test_an_exception_of_the_backend_comes_as_a_chain(oracle: ProgramOracle) -> None:
    failure = failure_of(check(oracle, failing_backend("raise ValueError('no')")), Status.FAIL)
    assert [link.type.rsplit(".")[-1] for link in failure.exceptions] == ["BackendCompilerFailed", "ValueError"]
    assert failure.exceptions[-1].message == "no"
    assert failure.exceptions[-1].frames[-1].function == "mine"
    assert failure.exceptions[-1].frames[-1].code == "raise ValueError('no')"
    assert failure.phase is Phase.COMPILE


@pytest.mark.parametrize(
    ("text", "phase", "error"),
    [
        ("def graph(:\n", Phase.LOAD, "SyntaxError"),
        ("RECIPE = {}\n", Phase.LOAD, "KeyError"),
        (program(calls="return [(missing,)]"), Phase.LOAD, "NameError"),
        (program("y = x @ x\nreturn (y,)"), Phase.EAGER, "RuntimeError"),
    ],
)
def test_what_eager_cannot_run_is_invalid(oracle: ProgramOracle, text: str, phase: Phase, error: str) -> None:
    failure = failure_of(check(oracle, text), Status.INVALID)
    assert (failure.phase, failure.exceptions[-1].type) == (phase, error)
    (eager,) = oracle.eager([text], None)
    assert eager.status is Status.INVALID


def test_a_crash_has_signal_phase_and_stack(oracle: ProgramOracle) -> None:
    failure = failure_of(check(oracle, failing_backend("os.abort()")), Status.FAIL)
    assert (failure.kind, failure.signal, failure.phase) == (Kind.CRASH, "SIGABRT", Phase.COMPILE)
    assert failure.stack[-1].function == "mine"


def test_a_crash_in_eager_is_invalid(oracle: ProgramOracle) -> None:
    text = program(calls="import os\nos.kill(os.getpid(), 11)\nreturn []")
    assert failure_of(check(oracle, text), Status.INVALID).signal == "SIGSEGV"


def test_a_crash_after_the_verdict_counts(oracle: ProgramOracle) -> None:
    failure = failure_of(check(oracle, program(preamble=LATE)), Status.FAIL)
    assert (failure.kind, failure.signal, failure.phase) == (Kind.CRASH, "SIGABRT", Phase.EXIT)


@pytest.mark.slow
def test_a_hang_is_a_timeout_with_the_stack_it_hangs_in(oracle: ProgramOracle) -> None:
    verdict = check(oracle, failing_backend("import time; time.sleep(1000)"), timeout=8)
    failure = failure_of(verdict, Status.FAIL)
    assert (failure.kind, failure.phase, failure.stack[-1].function) == (Kind.TIMEOUT, Phase.COMPILE, "mine")


def test_an_exit_without_report_is_no_verdict(oracle: ProgramOracle) -> None:
    assert check(oracle, failing_backend("os._exit(0)")).status is Status.CANNOT_TELL


@pytest.mark.slow
def test_settings_and_the_limit_of_memory_reach_the_run() -> None:
    claims = [
        "torch.get_num_threads() == 2",
        "torch.get_default_dtype() is torch.float64",
        "torch._dynamo.config.recompile_limit == 3",
        "not torch._inductor.config.fx_graph_cache",
        "not torch.is_grad_enabled()",
        "os.environ['REPRO_KIT_TEST'] == '1'",
        "b'REPRO_KIT_TEST=1' in open('/proc/%d/environ' % os.getppid(), 'rb').read()",
    ]
    recipe: dict[str, Any] = {
        "threads": 2,
        "default_dtype": "float64",
        "config": {"dynamo.recompile_limit": 3},
        "graph_caches": False,
        "grad_mode": "no_grad",
        "env": {"REPRO_KIT_TEST": "1"},
    }
    alike = {"env": recipe["env"]}  # a server with the same variables
    with ProgramOracle(sys.executable, memory=1 << 30, cache=probes(sys.executable)) as small:
        assert check(small, program()).status is Status.PASS  # a server without the variables
        verdict = check(small, failing_backend("\n    ".join(f"assert {claim}" for claim in claims), **recipe))
        assert verdict.status is Status.PASS, verdict
        assert check(small, program(calls="x = torch.ones(1 << 20)\nreturn [(x,)]", **alike)).status is Status.PASS
        verdict = check(small, program(calls="x = torch.ones(1 << 30)\nreturn [(x,)]", **alike))
    assert failure_of(verdict, Status.INVALID).kind is Kind.OOM


def test_autocast_is_around_the_forward(oracle: ProgramOracle) -> None:
    autocast = {"device": "cpu", "dtype": "bfloat16"}
    body = "y = x @ x.t()\nreturn (y,)"
    text = spoiling("out if out.dtype == torch.bfloat16 else None", body=body, autocast=autocast)
    assert check(oracle, text).status is Status.PASS


def test_contexts_are_around_a_call_and_its_backward(oracle: ProgramOracle) -> None:
    preamble = """
import contextlib
entered = []
@contextlib.contextmanager
def inside(what):
    entered.append(what)
    yield
    entered.pop()
class Seen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        raise ValueError(f"backward in {entered}")
def mine(gm, example_inputs):
    def run(*args):
        assert entered == ["a", "b"] or not entered
        return (Seen.apply(gm(*args)[0]),)
    return run
"""
    calls = "x = torch.ones(3, requires_grad=True)\nreturn [(x,)]"
    for contexts, entered in ((["inside('a')", "inside('b')"], "['a', 'b']"), ([], "[]")):
        verdict = check(oracle, program(calls=calls, preamble=preamble, backward="sum", contexts=contexts))
        assert failure_of(verdict, Status.FAIL).exceptions[-1].message == f"backward in {entered}"


def test_a_failure_of_what_comes_from_a_cache_needs_warm_caches(oracle: ProgramOracle) -> None:
    for warm, status in ((False, Status.PASS), (True, Status.FAIL)):
        statement = "compiled.append(1); assert len(compiled) < 2"
        text = failing_backend(statement, preamble="compiled = []\n", warm_caches=warm)
        assert check(oracle, text).status is status


def test_memory_of_the_recipe_is_all_there_is(oracle: ProgramOracle) -> None:
    limit = 8 << 30
    for size, status in ((1 << 20, Status.PASS), (limit, Status.FAIL)):
        verdict = check(oracle, failing_backend(f"torch.empty({size}, dtype=torch.uint8)", memory=limit))
        assert verdict.status is status, verdict
    assert failure_of(verdict, Status.FAIL).kind is Kind.OOM


@pytest.mark.slow
def test_the_backward_is_compiled_too_with_compiled_autograd(oracle: ProgramOracle) -> None:
    refuse = "import torch._dynamo.compiled_autograd as ca; assert not ca.in_compiled_autograd_region"
    calls = "x = torch.ones(3, requires_grad=True)\nreturn [(x,)]"
    for on, status in ((False, Status.PASS), (True, Status.FAIL)):
        verdict = check(oracle, failing_backend(refuse, calls=calls, backward="sum", compiled_autograd=on))
        assert verdict.status is status, verdict


def test_threads_are_those_of_the_machine(oracle: ProgramOracle) -> None:
    text = failing_backend(f"assert torch.get_num_threads() == {torch.get_num_threads()}")
    assert check(oracle, text).status is Status.PASS


def test_stored_values_are_found_beside_the_program(oracle: ProgramOracle, inputs: Path) -> None:
    torch.save(torch.full((2,), 7.0), inputs / "x.pt")
    load = (
        "import pathlib\n"
        "def load(name):\n"
        '    return torch.load(pathlib.Path(__file__).with_name("inputs") / name, weights_only=True)\n'
    )
    text = program(calls='x = load("x.pt")\nassert float(x.sum()) == 14\nreturn [(x,)]', preamble=load)
    assert check(oracle, text, inputs).status is Status.PASS
    valid = program(calls='x = load("x.pt")\nreturn [(x,)]', preamble=load)
    assert oracle.fake([valid, valid.replace("y = x + 1", "y = x @ torch.ones(3)")], inputs) == [True, False]


def test_fake_tells_valid_from_invalid_and_admits_ignorance(oracle: ProgramOracle) -> None:
    texts = [
        program("y = x @ x.t()\nreturn (y,)"),
        program("y = x @ x\nreturn (y,)"),
        program("y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))\nreturn (y,)"),
        "def graph(:\n",
        program("y = x.nonzero()\nz = y.sum()\nreturn (z,)"),
        program("y = x[:int(x.sum())] if x.sum() > 1 else x\nreturn (y,)"),
    ]
    found = oracle.fake(texts, None)
    assert found[:2] == [True, False]
    assert found[2] is not False
    assert found[3] is False
    assert found[4] is True
    assert found[5] is not False


def test_values_are_recorded_as_they_were_when_assigned(oracle: ProgramOracle, tmp_path: Path) -> None:
    body = "\n".join(
        [
            "y = x * 2",
            "v = y.t()",
            "y.add_(1)",
            "parts = torch.split(y, 2)",
            "first = parts[0]",
            "n = x.shape[0]",
            "z = y / 0",
            "return (z,)",
        ]
    )
    verdict, calls = oracle.record(program(body), None, values=["y", "v", "parts"], save=tmp_path / "values")
    assert verdict.status is Status.PASS
    (values,) = calls
    eager = torch.arange(12.0).reshape(3, 4) * 2
    assert torch.equal(torch.load(tmp_path / "values" / values["y"]["file"]), eager)
    flat = torch.load(tmp_path / "values" / values["v"]["file"])
    assert torch.equal(flat.as_strided(values["v"]["shape"], values["v"]["stride"]), eager.t())
    assert values["v"]["storage"] == values["y"]["storage"] == values["first"]["storage"] != values["x"]["storage"]
    assert (values["y"]["min"], values["y"]["max"]) == (0.0, 22.0)
    assert values["z"]["max"] is None
    assert [part["shape"] for part in values["parts"]] == [[2, 4], [1, 4]]
    assert values["first"]["dtype"] == "torch.float32"
    assert values["n"]["value"] == 3


@pytest.mark.parametrize(
    ("value", "samples"),
    [
        ("torch.tensor([[-0.0, 3], [2, 1]])", [-0.0, 3.0, 2.0, 1.0]),
        ("torch.arange(20) - 5", [-5, 14, -5]),
        ("torch.arange(20.0) * -1", [-0.0, -19.0, -0.0, -0.0]),
        ("torch.arange(1.0, 21) / torch.arange(-1, 19)", ["inf", -1.0, 3.0, -1.0]),
        ("torch.zeros(9) / 0", ["nan", "nan", "nan"]),
        ("torch.ones(3, dtype=torch.complex64)", []),
    ],
)
def test_a_record_holds_the_values_that_random_ones_lack(oracle: ProgramOracle, value: str, samples: list[Any]) -> None:
    _, (values,) = oracle.record(program(f"y = {value}\nreturn (y,)"), None)
    assert repr(values["y"]["samples"]) == repr(samples)


def test_a_value_of_jagged_sizes_leaves_the_records_of_the_others(oracle: ProgramOracle) -> None:
    body = "y = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 1, 3]))\nz = x + 1\nreturn (z,)"
    _, (values,) = oracle.record(program(body), None)
    assert values["y"] == {"python": "NestedTensor", "value": None}
    assert values["z"]["shape"] == values["x"]["shape"]


@pytest.fixture(scope="module")
def pair(oracle: ProgramOracle) -> Iterator[ProgramOracle]:
    """A zygote that answers two at once."""
    with ProgramOracle(sys.executable, cache=probes(sys.executable), jobs=2) as zygote:
        yield zygote


@pytest.mark.slow
def test_verdicts_come_in_order_whatever_ends_first(pair: ProgramOracle) -> None:
    slow = failing_backend("import time; time.sleep(2); raise ValueError('slow')")
    texts = [slow, program(), program("y = x @ x\nreturn (y,)")]
    assert [v.status for v in pair.check(texts, None)] == [Status.FAIL, Status.PASS, Status.INVALID]


@pytest.mark.slow
def test_closing_the_iterator_kills_what_is_under_way(pair: ProgramOracle) -> None:
    assert check(pair, program()).status is Status.PASS
    before = _descendants()
    found = pair.check([program(), failing_backend("import time; time.sleep(1000)")], None, timeout=500)
    assert next(found).status is Status.PASS
    found.close()
    assert check(pair, program()).status is Status.PASS
    assert _descendants() == before


@pytest.mark.slow
def test_a_check_ahead_is_asked_once_and_any_other_question_ends_it(pair: ProgramOracle) -> None:
    queries = pair.queries
    pair.check_ahead(spoiling("out * 2"), None)
    assert check(pair, spoiling("out * 2")).status is Status.FAIL
    assert pair.queries == queries + 1
    pair.check_ahead(failing_backend("import time; time.sleep(1000)"), None, timeout=500)
    assert check(pair, program()).status is Status.PASS
    pair.check_ahead(program(), None, timeout=500)
    pair.check_ahead(spoiling("out * 3"), None)
    assert [each.status for each in pair.check([program(), spoiling("out * 3")], None)] == [Status.PASS, Status.FAIL]


def test_an_interpreter_without_torch_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(ReproKitError, match=f"{python} has no torch"), ProgramOracle(str(python)) as zygote:
        check(zygote, program())
    with pytest.raises(ReproKitError, match="No such file"), ProgramOracle(str(tmp_path / "none")) as zygote:
        check(zygote, program())


@pytest.mark.slow
def test_fresh_interpreters_judge_alike(inputs: Path) -> None:
    texts = [
        program(),
        spoiling("out * 2"),
        failing_backend("os.abort()"),
        program(preamble="import atexit, os\natexit.register(os.abort)"),
    ]
    with ProgramOracle(sys.executable, how="spawn", cache=probes(sys.executable)) as spawn:
        passes, wrong, crash, late = spawn.check(texts, inputs)
    assert passes.status is Status.PASS
    assert failure_of(wrong, Status.FAIL).kind is Kind.ACCURACY
    assert failure_of(crash, Status.FAIL).stack[-1].function == "mine"
    assert failure_of(late, Status.FAIL).phase is Phase.EXIT


def _descendants() -> set[int]:
    """Processes below this one; a moment is given to those that were killed."""
    for _ in range(50):
        found = {p.pid for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE}
        if not found:
            return found
        time.sleep(0.02)
    return found - {os.getpid()}


def test_a_failed_lowering_names_the_statement_it_was_for(oracle: ProgramOracle) -> None:
    preamble = (
        "import torch._inductor.lowering as lowering\n"
        "def no(*arguments):\n    raise ValueError('no')\n"
        "lowering.lowerings[torch.ops.aten.sinh.default] = no\n"
    )
    body = "first = x.cos()\nsecond = torch.sinh(first)\nthird = second.exp()\nreturn (third,)"
    failure = failure_of(check(oracle, program(body, preamble=preamble, backend="inductor")), Status.FAIL)
    assert failure.origins[0] == "second"


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_is_named(oracle: ProgramOracle) -> None:
    config = {"inductor.cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}
    body = "first = x.cos().sum(1)\nsecond = x @ x.t()\nthird = torch.relu(second).sum(0)\nreturn (first, third)"
    failure = failure_of(check(oracle, program(body, backend="inductor", config=config)), Status.FAIL)
    assert "relu" in failure.origins[0]
    assert "cos" not in failure.origins[0]


def test_a_model_that_is_named_like_a_backend_of_torch_is_none(oracle: ProgramOracle) -> None:
    text = program("y = torch.sin(x)\nreturn (y,)", preamble="eager = torch.nn.Linear(2, 2)\n", backend="eager")
    (verdict,) = oracle.check([text], None, timeout=600)
    assert verdict.status is Status.PASS, verdict
