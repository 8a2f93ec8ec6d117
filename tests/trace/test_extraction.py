"""Artifacts by kind and compile id, repaired scripts, and the Chrome trace."""

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from repro_kit.trace import read
from repro_kit.trace.extraction import chrome_trace, extracted, listed
from repro_kit.trace.record import Record
from repro_kit.trace.runnables import artifacts, bodies_in, repaired

FIXTURES = Path(__file__).parent / "fixtures"
HIGHER_ORDER = FIXTURES / "insights" / "higher_order.log"


def test_list_names_kind_compile_and_a_path_each():
    found = list(listed(read(FIXTURES / "backward_error.log")))
    runnables = [one for one in found if one.kind == "fx_graph_runnable"]
    assert [(str(runnable.compile), runnable.index, str(runnable.path)) for runnable in runnables] == [
        ("0/0", 0, "fx_graph_runnable/0_0.py"),
        ("0/0", 1, "fx_graph_runnable/0_0_1.py"),
    ]
    paths = [one.path for one in found]
    assert len(set(paths)) == len(paths) and all(one.size for one in found)
    assert "torch_version/no_compile.json" in map(str, paths)


def test_extract_by_kind_and_compile_id():
    log = FIXTURES / "insights" / "four_sizes_static.log"
    found = list(extracted(read(log), ["dynamo_output_graph"], ["0/1", "0/3"]))
    assert [str(one.info.path) for one in found] == ["dynamo_output_graph/0_1.txt", "dynamo_output_graph/0_3.txt"]
    assert all(one.text.startswith("class GraphModule") and not one.note for one in found)
    everything = list(extracted(read(log)))
    assert sorted(one.info.path for one in everything) == sorted(one.path for one in listed(read(log)))


def test_ranks_and_attempts_and_odd_names_have_places_of_their_own(tmp_path):
    text = (FIXTURES / "insights" / "breaks_on_item.log").read_text()
    text = text.replace('"name": "dynamo_graph_break_reason"', '"name": "../../evil"')
    for rank in (0, 1):
        (tmp_path / f"{rank}.log").write_text(text.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))
    paths = [one.path for one in listed(read(tmp_path))]
    assert len(set(paths)) == len(paths) and not any(".." in path.parts for path in paths)
    assert {path.parts[0] for path in paths if path.parts[0].startswith("rank")} == {"rank_0", "rank_1"}


def test_processes_without_a_rank_do_not_overwrite_each_other(tmp_path):
    for name in ("a", "b"):
        shutil.copyfile(FIXTURES / "insights" / "four_sizes_static.log", tmp_path / f"{name}.log")
    paths = [one.info.path for one in extracted(read(tmp_path))]
    assert len(set(paths)) == len(paths)
    assert {str(path) for path in paths if path.stem == "0_3"} == {
        f"{home}{kind}/0_3.txt" for home in ("", "of_b/") for kind in ("dynamo_output_graph", "dynamo_cpp_guards_str")
    } | {"recompile_reasons/0_3.json", "of_b/recompile_reasons/0_3.json"}


def test_damaged_artifact_says_so(tmp_path):
    text = (FIXTURES / "insights" / "four_sizes_dynamic.log").read_text()
    (tmp_path / "a.log").write_text(text.replace("torch.relu(", "torch.tanh("))
    (one,) = extracted(read(tmp_path / "a.log"), ["dynamo_output_graph"])
    assert one.note == "the checksum does not match"


def test_repaired_script_leaves_traces_and_caches_alone_and_has_its_bodies():
    (one,) = extracted(read(HIGHER_ORDER), ["fx_graph_runnable"])
    ast.parse(one.text)
    assert "TORCH_TRACE" not in one.text and "CACHE_DIR'] =" not in one.text
    assert "self.true_graph_0 = Body_true_graph_0()" in one.text and "torch.ops.aten.sin.default" in one.text
    assert one.note.endswith("with the bodies true_graph_0, false_graph_0")


def test_settings_that_bear_on_the_failure_stay():
    text = "os.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'\nos.environ['MY_TORCH_TOKEN'] = 'x'"
    mended, notes = repaired(text, {})
    assert mended == "os.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'"
    assert notes == ("without MY_TORCH_TOKEN of the original run",)


def test_missing_bodies_are_named():
    _, notes = repaired("class Repro:\n        self.body_graph_0 = <lambda>()", {})
    assert notes == ("does not run: the trace lacks the bodies body_graph_0",)


def test_bodies_within_bodies_have_names_of_their_own():
    graph = """class <lambda>(torch.nn.Module):
    def forward(self, x):
        a = self.a
        return a
    class a(torch.nn.Module):
        def forward(self, x):
            a = self.a
            return a
        class a(torch.nn.Module):
            def forward(self, x):
                return (x,)
"""
    text = bodies_in(graph)["a"]
    names = [node.name for node in ast.parse(text).body]
    assert names == ["Body_a_a", "Body_a"] and "self.a = Body_a_a()" in text
    assert bodies_in("no graph at all") == {} and bodies_in("class <lambda>(x: not python") == {}


SCRIPT = """import torch
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.true_graph_0 = <lambda>()
    def forward(self, arg0_1, arg1_1):
        true_graph_0 = self.true_graph_0
        return (true_graph_0, arg0_1, arg1_1)
"""
GRAPH = """class {name}(torch.nn.Module):
    def forward(self, arg0_1: "f32[3, 4]", arg1_1: "f32[3, 4][4, 1]"):
        true_graph_0 = self.true_graph_0
        return (true_graph_0,)
    class true_graph_0(torch.nn.Module):
        def forward(self, arg0_1: "f32[3, 4]"):
            return (torch.ops.aten.{op}.default(arg0_1),)
"""


def records_of(*named: tuple[str, str]) -> list[Record]:
    return [
        Record("artifact", {"name": name}, "a.log", "", 1, "0/0", payload=payload)
        if name == "fx_graph_runnable"
        else Record(name, {}, "a.log", "", 1, "0/0", payload=payload)
        for name, payload in named
    ]


@pytest.mark.parametrize("name", ["aot_forward_graph", "inductor_post_grad_graph", "aot_joint_graph"])
@pytest.mark.parametrize("before", [True, False])
def test_bodies_that_other_records_of_the_trace_hold(name: str, before: bool) -> None:
    own = (name, GRAPH.format(name="GraphModule", op="sin"))
    other = ("aot_backward_graph", GRAPH.format(name="GraphModule", op="cos").replace("arg1_1", "tangents_1"))
    script = ("fx_graph_runnable", SCRIPT)
    (found,) = artifacts(records_of(*((other, own, script) if before else (script, other, own))))
    ast.parse(found.text)
    assert "aten.sin" in found.text and "aten.cos" not in found.text
    (lacking,) = artifacts(records_of(script, other, ("dynamo_output_graph", own[1])))
    assert "<lambda>()" in lacking.text


@pytest.mark.torch
@pytest.mark.slow
def test_repaired_script_with_bodies_runs(python_in_forks, tmp_path):
    (one,) = extracted(read(HIGHER_ORDER), ["fx_graph_runnable"])
    (tmp_path / "run.py").write_text(one.text)
    env = {**os.environ, "TORCH_COMPILE_DISABLE": ""}
    done = subprocess.run(
        [python_in_forks, "run.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_chrome_trace_is_json_with_a_process_a_log(tmp_path):
    text = (FIXTURES / "hang.log").read_text()
    for rank in (0, 1):
        (tmp_path / f"{rank}.log").write_text(text.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))
    events = json.loads(b"".join(chrome_trace(read(tmp_path))))["traceEvents"]
    assert [event["args"]["name"].split(",")[0] for event in events if event["ph"] == "M"] == ["rank 0", "rank 1"]
    begun = [event for event in events if event["ph"] == "B"]
    assert {one["pid"] for one in begun} == {0, 1} and begun[0]["name"] == "dynamo" and begun[0]["ts"] > 0


def test_chrome_trace_of_a_log_without_timings_is_empty_json():
    assert json.loads(b"".join(chrome_trace(read(FIXTURES / "backend_error.log"))))["traceEvents"] == []
