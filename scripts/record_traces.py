"""Record the traces and outputs in tests/trace/fixtures anew, with the torch of this interpreter.

python scripts/record_traces.py [CASE]…

Runs the functions of tests/trace/torch_cases.py and insight_cases.py, keeps what the tests read (see `EVENTS`, `TOLD`)
and replaces this machine's paths; checksums are computed anew. The fixtures stay small so that they can be read in a
review.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests" / "trace"
CASES = TESTS / "torch_cases.py"
INSIGHTS = TESTS / "insight_cases.py"
FIXTURES = TESTS / "fixtures"
EVENTS = {
    "str", "dynamo_start", "compilation_metrics", "bwd_compilation_metrics", "torch_version", "dynamo_error",
    "dynamo_graph_break_reason", "recompile_reasons",
}  # fmt: skip
#: Cases for insights. Their stacks keep only their ends, because all of torch lies between.
TOLD = EVENTS | {
    "create_symbol", "create_unbacked_symbol", "symbolic_shape_specialization", "describe_tensor", "describe_source",
    "dynamo_output_graph", "dynamo_cpp_guards_str", "aotautograd_cache_miss", "fx_graph_cache_miss", "chromium_event",
    "fx_graph_runnable", "before_post_grad_graph", "get_local_code_state", "put_local_code_state",
}  # fmt: skip
#: Kept of the cases in `KERNELS`, beside `EVENTS`, since they are long.
GENERATED = {
    "before_pre_grad_graph", "inductor_post_grad_graph", "inductor_output_code",
    "inductor_provenance_tracking_node_mappings", "inductor_provenance_tracking_kernel_stack_traces",
}  # fmt: skip
KERNELS = ("kernels",)
LOGS = "graph_breaks,recompiles,guards,dynamic"
TEXTS = ("branch_on_size", "breaks_on_item", "breaks_on_print", "four_sizes_static", "hit_limit", "duck_shaped")
SETTINGS = re.compile(r"^(?:assume_static_by_default|automatic_dynamic_shapes|recompile_limit|specialize_float)$")
STEPS = {"chromium_event", "inductor_post_grad_graph"}  # recorded only where a step stays open
OPEN = ("hang",)
GRAPHS = ("hang", "backward_error")  # cases whose graphs are kept as scripts
SILENT = ("abort", "runtime_error", "wrong_result")  # their traces show nothing new, but their output does
METRICS = re.compile(
    r"^(compile_id|fail_\w+|restart_reasons|has_guarded_code|is_forward|co_name|start_time|recompile_reason)$"
)
NUMBERS = re.compile(r"^(co_\w+|dynamo_config|guard_count|guard_latency_us|graph_op_count|\w+_time_us|duration_us)$")
CONTEXT = {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack"}
LONGEST = 30  # lines of a payload or an output


def main() -> None:
    wanted = sys.argv[1:]
    for name in re.findall(r"^def (\w+)\(\):", CASES.read_text(), re.MULTILINE):
        if not wanted or name in wanted:
            print(name)
            record(name)
    case_names = re.findall(r"^def ([a-z]\w+)\(\):", INSIGHTS.read_text(), re.MULTILINE)
    if not wanted or set(case_names) & set(wanted):
        record_insights([name for name in case_names if not wanted or name in wanted])
    size = sum(file.stat().st_size for file in FIXTURES.rglob("*") if file.is_file())
    print(f"{size / 1000:.0f} kB in all")


def record(name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        env = {**clean(), "TORCH_TRACE": f"{directory}/trace", "TORCHINDUCTOR_CACHE_DIR": f"{directory}/cache"}
        done = subprocess.run([sys.executable, str(CASES), name], env=env, capture_output=True, text=True, check=False)
        if name not in SILENT:
            (log,) = Path(directory, "trace").glob("*.log")
            keep = EVENTS | (STEPS if name in OPEN else set()) | ({"fx_graph_runnable"} if name in GRAPHS else set())
            lines = "".join(kept(log.read_text(), keep, lambda text: anonymous(text, directory)))
            (FIXTURES / f"{name}.log").write_text(lines)
        if done.returncode:
            (FIXTURES / f"{name}.stderr.txt").write_text(cut(anonymous(done.stderr, directory)) + "\n")


def record_insights(names: list[str]) -> None:
    """The traces of all cases, from one run each, and the text of torch's log for some cases."""
    with tempfile.TemporaryDirectory() as directory:
        env = {**clean(), "TORCH_TRACE": f"{directory}/warm", "TORCHINDUCTOR_CACHE_DIR": f"{directory}/cache"}
        subprocess.run([sys.executable, str(INSIGHTS), "--each", directory], env=env, capture_output=True, check=True)
        for name in names:
            print(name)
            (log,) = Path(directory, name).glob("*.log")
            told = EVENTS | GENERATED if name in KERNELS else TOLD
            lines = "".join(kept(log.read_text(), told, lambda text: anonymous(text, directory), whole=True))
            (FIXTURES / "insights" / f"{name}.log").write_text(used(lines))
        for name in sorted(set(names) & set(TEXTS)):
            env = {**clean(), "TORCH_LOGS": LOGS}
            command = [sys.executable, str(INSIGHTS), name]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            (FIXTURES / "insights" / f"{name}.txt").write_text(anonymous(done.stderr, directory))


def clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not re.search("TORCH|DYNAMO|INDUCTOR|TRITON", key)}


def used(text: str) -> str:
    """`text` without file names that no stack refers to."""
    ids = set(re.findall(r'"filename": (\d+)', text))
    lines = text.splitlines(keepends=True)
    return "".join(
        line for line in lines if (record := re.search(r'"str": \[".*", (\d+)\]', line)) is None or record[1] in ids
    )


def kept(text: str, events: set[str], rewrite, *, whole: bool = False) -> Iterator[str]:
    """The records in `text` whose event or artifact name is in `events`; with `whole`, all that insights read."""
    for record in re.finditer(r"^(V\d{4} .*?\]) (\{.*)\n((?:\t.*\n)*)", text, re.MULTILINE):
        data = json.loads(record[2])
        event = next(key for key in data if key not in CONTEXT)
        if (data[event].get("name") if event == "artifact" else event) not in events:
            continue
        if event == "chromium_event" and whole and "pgo." not in record[3]:
            continue
        if isinstance(data[event], dict) and "stack" in data[event] and whole and event != "dynamo_start":
            data[event]["stack"] = ends(data[event]["stack"])
        if event.endswith("compilation_metrics"):
            data[event] = {
                key: value
                for key, value in data[event].items()
                if METRICS.match(key) or (whole and NUMBERS.match(key) and value is not None)
            }
            if "dynamo_config" in data[event]:
                config = json.loads(data[event]["dynamo_config"])
                config = {key: value for key, value in config.items() if SETTINGS.match(key)}
                data[event]["dynamo_config"] = json.dumps(config)
            data[event]["fail_reason"] = (data[event].get("fail_reason") or "")[:800] or None
        payload = record[3].removesuffix("\n").replace("\n\t", "\n").removeprefix("\t")
        data = json.loads(rewrite(json.dumps(data)))
        if "has_payload" in data:
            uncut = whole or '"fx_graph_runnable"' in record[2]
            payload = rewrite(payload) if uncut else cut(rewrite(payload))
            data["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
        yield f"{record[1]} {json.dumps(data)}\n"
        if "has_payload" in data:
            yield "".join(f"\t{line}\n" for line in payload.split("\n"))


def ends(stack: list[dict]) -> list[dict]:
    return stack if len(stack) < 21 else [*stack[:3], *stack[-18:]]


def anonymous(text: str, directory: str) -> str:
    for path, shown in ((directory, "/tmp/run"), (str(CASES.parent), "/home/me"), (sys.prefix, "/venv")):
        text = text.replace(path, shown)
    text = re.sub(
        rf"(?:[\w/]*/)?{TESTS.parent.name}/{TESTS.name}/(\w+\.py)", r"home/me/\1", text
    )  # torch shortens the text in the same way
    return re.sub(rf"{re.escape(sys.base_prefix)}|/tmp/torchinductor_\w+", "/python", text)


def cut(text: str) -> str:
    """`text` without most of its inner lines. An exception's text is kept up to a native compiler's first error."""
    lines = [line[:400] for line in text.rstrip("\n").split("\n")]
    if len(lines) <= LONGEST:
        return "\n".join(lines)
    head = max((at for at, line in enumerate(lines) if line.startswith("Traceback")), default=None)
    if head is None:
        return "\n".join(lines[: 2 * LONGEST])
    raised = next((at for at in range(head + 1, len(lines)) if lines[at] and lines[at][0] != " "), len(lines))
    error = next((at for at in range(raised, len(lines)) if ": error: " in lines[at]), raised)
    start = max(head + 3, raised - LONGEST)
    return "\n".join([*lines[head : head + 3], *lines[start : error + 15]])


if __name__ == "__main__":
    main()
