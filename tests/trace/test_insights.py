"""What real traces tell (fixtures: scripts/record_traces.py), and that real torch still writes them so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.trace import artifacts, read, summarise

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"

#: case -> (outcomes of its compiles, (type, soft, backward) of its failures)
EXPECTED = {
    "graph_break_allowed": (["ok"] * 4, []),
    "graph_break_skips_frame": (["eager"], []),
    "graph_break_fullgraph": (["failed"], [("Unsupported", True, False)]),
    "user_exception": (["eager"], []),
    "recompile_limit": (["ok", "ok", "eager"], []),
    "recompile_limit_fullgraph": (["ok", "ok", "failed"], [("FailOnRecompileLimitHit", False, False)]),
    "tensorify_restart": (["ok", "ok"], []),
    "backend_error": (["failed"], [("BackendCompilerFailed", False, False)]),
    "backend_error_suppressed": (["failed"], [("BackendCompilerFailed", False, False)]),
    "backend_error_caught": (["failed"], [("BackendCompilerFailed", False, False)]),
    "internal_error": (["failed"], [("KeyError", False, False)]),
    "data_dependent_fullgraph": (["failed"], [("UserError", True, False)]),
    "cpp_compile_error": (["failed"], [("InductorError", False, False)]),
    "lowering_error": (["failed"], [("InductorError", False, False)]),
    "backward_error": (["failed"], [("InductorError", False, True)]),
    "hang": (["open"], []),
}


def check(case: str, trace: Path) -> None:
    outcomes, failures = EXPECTED[case]
    assert [compile_id_.outcome.value for compile_id_ in summarise(trace).compiles] == outcomes
    found = summarise(trace).failures
    assert [(one.type, one.soft, one.backward) for one in found] == failures
    assert all(one.text and one.reason for one in found)
    assert (summarise(trace).open_step is not None) == (case == "hang")


@pytest.mark.parametrize("case", EXPECTED)
def test_failures_are_told_from_control_flow(case):
    check(case, FIXTURES / f"{case}.log")


@pytest.mark.torch
@pytest.mark.slow
def test_this_torch_writes_traces_so(tmp_path):
    names = ("TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCHINDUCTOR_VEC_ISA_OK")
    alone = dict.fromkeys(names, "1")  # the last: without test libraries for the CPU
    env = {**os.environ, "TORCH_TRACE": str(tmp_path / "warm"), **alone}
    command = [sys.executable, str(HERE / "torch_cases.py"), "--each", str(tmp_path)]
    subprocess.run(command, env=env, capture_output=True, check=True)
    for case in EXPECTED:
        check(case, tmp_path / case)
        reader = read(tmp_path / case)
        assert sum(1 for _ in reader) > 5
        assert (reader.problems.damaged, reader.problems.stray, reader.problems.eventless) == (0, 0, 0)


def test_open_step_names_step_graph_and_progress():
    step = summarise(FIXTURES / "hang.log").open_step
    assert step == "GraphLowering.run of graph 0/0, after inductor_post_grad_graph"


def test_each_process_has_an_open_step_of_its_own(tmp_path):
    text = (FIXTURES / "hang.log").read_text()
    pid = text.split()[2]
    for rank in (0, 1):
        of_rank = text.replace(f" {pid} ", f" {70 + rank} ").replace('"frame_id"', f'"rank": {rank}, "frame_id"')
        (tmp_path / f"rank_{rank}.log").write_text(of_rank)
    steps = summarise(tmp_path).open_steps
    words = [f"GraphLowering.run of graph 0/0 on rank {rank}, after inductor_post_grad_graph" for rank in (0, 1)]
    assert steps == dict(zip((70, 71), words, strict=True))


def test_without_timers_the_frame_that_was_begun_is_the_open_step(tmp_path):
    text = (FIXTURES / "hang.log").read_text().replace("chromium_event", "something_else")
    (tmp_path / "a.log").write_text(text)
    assert "graph 0/0" in summarise(tmp_path).open_step


def test_forward_and_backward_scripts_share_an_id_and_keep_their_order():
    forward, backward = artifacts(read(FIXTURES / "backward_error.log"))
    assert forward.compile_id == backward.compile_id == "0/0"
    assert "tangents_1" not in forward.text and "tangents_1" in backward.text


def test_the_same_id_on_two_ranks_is_two_compiles(tmp_path):
    text = (FIXTURES / "backend_error.log").read_text()
    (tmp_path / "rank_0.log").write_text(text.replace('"frame_id"', '"rank": 0, "frame_id"'))
    (tmp_path / "rank_1.log").write_text(text.replace('"frame_id"', '"rank": 1, "frame_id"'))
    assert [(compile_failure.compile_id, compile_failure.rank) for compile_failure in summarise(tmp_path).failures] == [
        ("0/0", 0),
        ("0/0", 1),
    ]


def test_an_error_without_metrics_counts_and_has_a_name(tmp_path):
    text = (FIXTURES / "backend_error.log").read_text()
    (tmp_path / "a.log").write_text(text[: text.rindex("V")])
    (failure,) = summarise(tmp_path).failures
    assert failure.type == "BackendCompilerFailed"


def test_summary_asks_all_in_one_pass():
    summary = summarise(FIXTURES)
    assert len(summary.compile_ids) == sum(len(outcomes) for outcomes, _ in EXPECTED.values())
    assert len(summary.failures) == sum(len(failures) for _, failures in EXPECTED.values())
    assert summary.problems.damaged == 0
    assert summarise(FIXTURES / "missing").failures == ()
