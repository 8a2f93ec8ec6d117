"""Record the traces and outputs that tests/trace/fixtures holds, anew, with the torch of this interpreter.

python scripts/record_traces.py [CASE]…

Runs the functions of tests/trace/torch_cases.py, keeps what the tests read (see `EVENTS`) and replaces this machine's
paths; checksums are computed anew. The fixtures stay small so that they can be read in a review.
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
FIXTURES = TESTS / "fixtures"
EVENTS = {
    "str", "dynamo_start", "compilation_metrics", "bwd_compilation_metrics", "torch_version", "dynamo_error",
    "dynamo_graph_break_reason", "recompile_reasons",
}  # fmt: skip
STEPS = {"chromium_event", "inductor_post_grad_graph"}  # only where a step stays open
OPEN = ("hang",)
GRAPHS = ("hang", "backward_error")  # keep the graphs as scripts of these
SILENT = ("abort", "runtime_error", "wrong_result")  # their traces show nothing new, their output does
METRICS = re.compile(
    r"^(compile_id|fail_\w+|restart_reasons|has_guarded_code|is_forward|co_name|start_time|recompile_reason)$"
)
CONTEXT = {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack"}
LONGEST = 30  # lines of a payload or an output


def main() -> None:
    names = re.findall(r"^def (\w+)\(\):", CASES.read_text(), re.MULTILINE)
    for name in sys.argv[1:] or names:
        print(name)
        record(name)
    size = sum(file.stat().st_size for file in FIXTURES.iterdir())
    print(f"{size / 1000:.0f} kB in all")


def record(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        clean = {key: value for key, value in os.environ.items() if not re.search("TORCH|DYNAMO|INDUCTOR|TRITON", key)}
        env = {**clean, "TORCH_TRACE": f"{place}/trace", "TORCHINDUCTOR_CACHE_DIR": f"{place}/cache"}
        done = subprocess.run([sys.executable, str(CASES), name], env=env, capture_output=True, text=True, check=False)
        if name not in SILENT:
            (log,) = Path(place, "trace").glob("*.log")
            keep = EVENTS | (STEPS if name in OPEN else set()) | ({"fx_graph_runnable"} if name in GRAPHS else set())
            lines = "".join(kept(log.read_text(), keep, lambda text: anonymous(text, place)))
            (FIXTURES / f"{name}.log").write_text(lines)
        if done.returncode:
            (FIXTURES / f"{name}.stderr.txt").write_text(cut(anonymous(done.stderr, place)) + "\n")


def kept(text: str, events: set[str], rewrite) -> Iterator[str]:
    """The records of `text` whose event or artifact name is in `events`."""
    for found in re.finditer(r"^(V\d{4} .*?\]) (\{.*)\n((?:\t.*\n)*)", text, re.MULTILINE):
        data = json.loads(found[2])
        event = next(key for key in data if key not in CONTEXT)
        if (data[event].get("name") if event == "artifact" else event) not in events:
            continue
        if event.endswith("compilation_metrics"):
            data[event] = {key: value for key, value in data[event].items() if METRICS.match(key)}
            data[event]["fail_reason"] = (data[event].get("fail_reason") or "")[:800] or None
        payload = found[3].removesuffix("\n").replace("\n\t", "\n").removeprefix("\t")
        data = json.loads(rewrite(json.dumps(data)))
        if "has_payload" in data:
            payload = rewrite(payload) if '"fx_graph_runnable"' in found[2] else cut(rewrite(payload))
            data["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
        yield f"{found[1]} {json.dumps(data)}\n"
        if "has_payload" in data:
            yield "".join(f"\t{line}\n" for line in payload.split("\n"))


def anonymous(text: str, place: str) -> str:
    for known, shown in ((place, "/tmp/run"), (str(CASES.parent), "/home/me"), (sys.prefix, "/venv")):
        text = text.replace(known, shown)
    return re.sub(rf"{re.escape(sys.base_prefix)}|/tmp/torchinductor_\w+", "/python", text)


def cut(text: str) -> str:
    """`text` without most of its inner lines; what the exception says goes on to a native compiler's first error."""
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
