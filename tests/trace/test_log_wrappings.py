"""A text of TORCH_LOGS says the same, whatever a terminal, a container or a launcher wrote before its lines."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from repro_kit.trace.insights import gather

FIXTURES = Path(__file__).parent / "fixtures"
RAY = "(RayTrainWorker pid=4127, ip=10.0.0.7) "


def _each(prefix):
    return lambda lines: [prefix + line for line in lines]


def _timed(lines):
    return [f"2024-07-03T10:{at // 60 % 60:02}:{at % 60:02}.{at:09}Z stderr F {line}" for at, line in enumerate(lines)]


def _progress(lines):
    bar = "step {0}:  {0}%|{1}         | {0}/300 [00:0{2}<00:09,  3.1it/s]"
    starts = [at for at, line in enumerate(lines) if at and line[:1] in "VIW[" and line[:6] != lines[at - 1][:6]]
    bars = {at: bar.format(number, "#" * (number % 9), number % 9) for number, at in enumerate([0, *starts])}
    return [bars.get(at, "") + line for at, line in enumerate(lines)]


WRAPPINGS = {
    "docker compose": _each("trainer-0  | "),
    "kubernetes": _timed,
    "docker's json": lambda lines: [json.dumps({"log": line + "\n", "stream": "stderr"}) for line in lines],
    "ray": _each(RAY),
    "vllm": _each("(EngineCore_0 pid=1234) "),
    "hydra": _each("[2024-07-03 10:34:13,123][train][INFO] - "),
    "slurm": _each("3: "),
    "journal": _each("Jul 03 10:34:13 node7 python[4127]: "),
    "colours": lambda lines: [f"\x1b[33m{line}\x1b[0m" for line in lines],
    "colours of a copy": lambda lines: [f"[2m[33m{line}[0m" for line in lines],
    "quoted": _each("> "),
    "commented": _each("# "),
    "indented": _each("    "),
    "numbered": lambda lines: [f"{at:6}  {line}" for at, line in enumerate(lines, 1)],
    "progress bar": _progress,
    "coloured container": lambda lines: [f"\x1b[36mtrainer-0  | \x1b[0m{line}" for line in lines],
    "windows": lambda lines: [line + "\r" for line in lines],
    "quoted container": _each("> trainer-0  | "),
    "github actions": lambda lines: [f"2024-07-03T10:34:13.{at:07}Z {line}" for at, line in enumerate(lines)],
}


def _logged(stamp, breaks):
    """Two recompiles, a graph break and a limit, with a stamp before each line."""
    stack = ('  File "/me/a.py", line 5, in f', '    print("hi")', "")
    messages = [("symbolic_convert", "graph_breaks", 0, line) for line in breaks(stack)]
    for number in (1, 2):
        guards = (
            "Recompiling function f in /me/a.py:3",
            "    triggered by the following guard failure(s):",
            f"    - tensor 'L['x']' size mismatch at index 0. expected {3 + number}, actual {4 + number}",
        )
        messages += [("guards", "recompiles", number, line) for line in guards]
    limit = (
        "torch._dynamo hit config.cache_size_limit (3)",
        "   function: 'f' (/me/a.py:3)",
        "   last reason: tensor 'L['x']' size mismatch at index 0. expected 5, actual 7",
        'To log all recompilation reasons, use TORCH_LOGS="recompiles".',
    )
    messages += [("convert_frame", "", 3, line) for line in limit]
    return "".join(f"{stamp(*where)}{line}\n" for *where, line in messages)


def _of_2_2(module, artifact, number):
    level = "DEBUG" if artifact else "WARNING"
    return f"[2024-02-01 12:00:0{number},123] {_short_2_2(module, artifact, number).replace('DEBUG', level)}"


def _short_2_2(module, artifact, number):
    artifact = f".__{artifact}" if artifact else ""
    return f"[0/{number}] torch._dynamo.{module}{artifact}: [DEBUG] "


def _of_2_3(module, artifact, number, shown=True):
    artifact = f"[__{artifact}] " if artifact else ""
    compile_id = f"[0/{number}] " if shown else ""
    stamp = f"0401 12:00:0{number}.123000 139689102684672 torch/_dynamo/{module}.py:21"
    return f"{'V' if artifact else 'W'}{stamp}] {compile_id}{artifact}"


PRINT = "call_function BuiltinVariable(print) [ConstantVariable(str)] {}"
RAISED = ("Traceback (most recent call last):", '  File "/torch/x.py", line 8, in run', "    inner()")


def _named(stack):
    return f"Graph break: {PRINT} from user code at:", *stack


def _raised(stack):
    return "Graph break: from user code at:", *stack, *RAISED, f"torch._dynamo.exc.Unsupported: {PRINT}"


def _explained(stack):
    reason = f"Graph Break Reason: Unsupported: {PRINT}"
    return "Graph break in user code at /me/a.py:5", reason, "User code traceback:", *stack


OLDEST = "[2023-04-13 21:42:5{0},807] torch._dynamo.convert_frame"
PAIR = (
    f"{OLDEST}.__recompiles: [DEBUG] ('Recompiling function f in /me/a.py', \"triggered by the following guard "
    "failure: tensor 'L['x']' size mismatch at index 0. expected {1}, actual {2}\")\n"
)
LIMIT_2_0 = f"""{OLDEST.format(7)}: [WARNING] torch._dynamo hit config.cache_size_limit (3)
   function: 'f' (/me/a.py:3)
   reasons:  ["tensor 'L['x']' size mismatch at index 0. expected 5, actual 7"]
to diagnose recompilation issues, see https://pytorch.org/docs/master/compile/troubleshooting.html.
"""
OF_VERSIONS = {
    "torch 2.0": "[2023-04-13 21:42:50,807] torch._dynamo.symbolic_convert.__graph_breaks: [DEBUG] "
    f'Graph break: {PRINT} from user code at   File "/me/a.py", line 5, in f\n    print("hi")\n\n'
    + PAIR.format(1, 4, 5) + PAIR.format(2, 5, 6) + LIMIT_2_0,
    "torch 2.2": _logged(_of_2_2, _named),
    "torch 2.2, without times": _logged(_short_2_2, _named),
    "torch 2.3": _logged(_of_2_3, _raised),
    "torch 2.3, short": _logged(lambda *where: re.sub(r"^(.).*?\] (?=\[)", r"\1 ", _of_2_3(*where)), _raised),
    "torch 2.3, without ids": _logged(lambda *where: _of_2_3(*where, shown=False), _raised),
    "newer": _logged(lambda *where: _of_2_3(*where).replace("139689102684672", "1403"), _explained),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_VERSIONS)
def test_each_version_of_torch_tells_the_same(tmp_path, name):
    (tmp_path / "log.txt").write_text(OF_VERSIONS[name])
    told = gather(tmp_path / "log.txt")
    assert (told.totals.recompiles, told.totals.limit_hits, told.lines.unread) == (2, 1, 0)
    (one,) = told.recompiles
    assert (one.name, one.code.file, one.setting) == ("f", "/me/a.py", "cache_size_limit")
    assert {(reason.guard.source, reason.guard.kind) for reason in one.reasons} == {("L['x'].size()[0]", "size")}
    (graph_break,) = told.breaks
    assert (graph_break.where.file, graph_break.where.line) == ("/me/a.py", 5) and PRINT in graph_break.kind


def _texts():
    texts = {path.stem: path.read_text() for path in sorted((FIXTURES / "insights").glob("*.txt"))}
    texts |= OF_VERSIONS
    texts["torch 2.1, one stamp for a message"] = (
        "[2023-10-02 10:00:00,100] [1/0] torch._dynamo.symbolic_convert.__graph_breaks: [DEBUG] Graph break: "
        "call_function BuiltinVariable(print) [ConstantVariable(str)] {} from user code at:\n"
        '  File "/me/a.py", line 5, in f\n    print("hi")\n\n'
    )
    texts["short stamps"] = (
        "[0/2] [__recompiles] Recompiling function forward in /home/user/model/block.py:216\n"
        "    triggered by the following guard failure(s):\n"
        "    - 0/0: len(boundaries.sequence_lengths) == 26   # self.attention(  # block.py:250 in f\n"
        "[1/1] [__recompiles] Recompiling function forward in /home/user/model/attention.py:510\n"
        "    - 1/0: len(boundaries.sequence_lengths) == 26   # fa4_varlen_attention(  # attention.py:532 in g\n"
    )
    texts["a rank"] = "".join(
        f"[rank3]:V0606 12:51:18.544000 133019546625856 torch/_dynamo/guards.py:2610] [1/1] [__recompiles] {line}\n"
        for line in (
            "Recompiling function forward in /workspace/transformer.py:753",
            "    triggered by the following guard failure(s):",
            "    - tensor 'L['tgt']' dtype mismatch. expected Half, actual Float",
        )
    )
    return texts


TEXTS = _texts()


def findings(path):
    """Everything that a text tells, without the names of logs."""
    insights = asdict(gather(path))
    for field in ("events", "problems"):
        del insights[field]
    return _without_logs(insights)


def _without_logs(value):
    if isinstance(value, dict):
        return {key: _without_logs(part) for key, part in value.items() if key not in ("log", "logs")}
    return [_without_logs(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", TEXTS)
def test_a_wrapped_text_says_what_the_text_says(tmp_path, name):
    log = tmp_path / "log.txt"
    log.write_text(TEXTS[name])
    plain = findings(log)
    assert plain["recompiles"] or plain["breaks"] or plain["shapes"]["symbols"]
    for wrapping, wrapped in WRAPPINGS.items():
        log.write_text("\n".join(wrapped(TEXTS[name].splitlines())) + "\n")
        assert findings(log) == plain, wrapping


def test_two_containers_that_mix_their_lines_are_two_processes(tmp_path):
    lines = TEXTS["hit_limit"].splitlines()
    mixed = [f"trainer-{at}  | {line}" for line in lines for at in (0, 1)]
    (tmp_path / "log.txt").write_text("\n".join(mixed) + "\n")
    both = gather(tmp_path / "log.txt")
    (tmp_path / "log.txt").write_text(TEXTS["hit_limit"])
    one = gather(tmp_path / "log.txt")
    assert both.totals.compiles == 2 * one.totals.compiles and both.totals.recompiles == 2 * one.totals.recompiles
    assert both.lines.total == 2 * one.lines.total and both.totals.functions == one.totals.functions


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_text_of_powershell_is_read(tmp_path, encoding):
    (tmp_path / "log.txt").write_text(TEXTS["hit_limit"], encoding=encoding)
    assert gather(tmp_path / "log.txt").totals.limit_hits == 1


def test_a_launcher_tells_the_rank_before_each_line(tmp_path):
    lines = [f"[default{rank}]:{line}" for rank in (0, 1) for line in TEXTS["torch 2.2"].splitlines()]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    assert set(gather(tmp_path / "log.txt").ranks.compiles) == {0, 1}


def test_lines_of_the_program_between_those_of_torch_are_its_own(tmp_path):
    plain = TEXTS["four_sizes_static"].splitlines()
    noisy = [
        one
        for line in plain
        for one in (line, "loss 0.25", "- accuracy: 0.5", "I0703 10:34:13.273000 140 mine.py:12] x")
    ]
    (tmp_path / "log.txt").write_text("\n".join(plain) + "\n")
    quiet = findings(tmp_path / "log.txt")
    (tmp_path / "log.txt").write_text("\n".join(noisy) + "\n")
    loud = findings(tmp_path / "log.txt")
    assert (loud["recompiles"], loud["breaks"], loud["lines"]) == (quiet["recompiles"], quiet["breaks"], quiet["lines"])
