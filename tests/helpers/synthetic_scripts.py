"""Scripts and oracles without torch: which statements are the bug is decided by the functions that they call."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from repro_kit.reduce import Answer, RunOutcome
from repro_kit.script import Script


def build_script(count: int, culprits: dict[int, str], seed: int = 0) -> Script:
    """A script of about `count` statements in functions, classes, branches and loops; some call the bugs' functions."""
    rng = random.Random(seed)
    lines = ["import torch", "fine = bug0 = bug1 = bug2 = bug3 = print", "v = 1"]
    indent = 0
    for at in range(count):
        call = f"{culprits.get(at, 'fine')}(v + {rng.randrange(50)}, key=[{at}, 'text'])"
        kind = rng.choice(["call", "call", "assign", "if", "for", "with", "def", "class", "try", "close"])
        if kind in ("if", "for", "with", "def", "try", "class"):
            heads = {
                "if": f"if v > {at}:",
                "for": f"for i{at} in range({at + 2}):",
                "with": f"with torch.no_grad() as c{at}:",
                "def": f"def f{at}(a, b={at}):",
                "class": f"class C{at}(object):",
                "try": "try:",
            }
            lines.append("    " * indent + heads[kind])
            lines.append("    " * (indent + 1) + call)
            if kind == "try":
                lines += ["    " * indent + "finally:", "    " * (indent + 1) + "v = 2"]
            indent += indent < 3 and kind != "try"
        else:
            indent -= kind == "close" and indent > 0
            lines.append("    " * indent + (f"w{at} = {call}" if kind == "assign" else call))
    return Script.of(ast.parse("\n".join(lines)))


def called(program: Script) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(program.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


class SyntheticScripts:
    """Fails alike when every function of `bugs` is called. `die_at`: the query at which the search is killed."""

    def __init__(self, bugs: Sequence[str], *, jobs: int = 1, die_at: int | None = None) -> None:
        self.bugs, self.jobs, self.die_at = set(bugs), jobs, die_at
        self.seen: list[Script] = []

    def check(self, programs: Sequence[Script]) -> Iterator[Answer]:
        for program in programs:
            if len(self.seen) == self.die_at:
                raise KeyboardInterrupt
            self.seen.append(program)
            yield Answer(RunOutcome.FAILS_ALIKE if self.fails(program) else RunOutcome.PASSES, 0.01)

    def fails(self, program: Script) -> bool:
        return self.bugs <= called(program)

    def adopt(self, answer: Answer) -> None:
        raise AssertionError("no answer here is equivalent")


class _Anything:
    """Can be called, entered, awaited, compared and inherited from."""

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def __call__(self, *arguments: object, **named: object) -> object:
        return self

    def __enter__(self) -> object:
        return self

    def __exit__(self, *arguments: object) -> None:
        pass


class RunningScripts(SyntheticScripts):
    """Runs the script, and fails alike when every function of `bugs` was called before an exception ended it."""

    def fails(self, program: Script) -> bool:
        seen: set[str] = set()
        namespace: dict[str, object] = {"__name__": "__main__", "Base": _Anything, "run": _run}
        namespace |= {name: _Anything() for name in ("fine", "context", "log")}
        namespace |= {name: lambda *_, name=name: seen.add(name) for name in self.bugs}
        try:
            exec(compile(program.text, "script.py", "exec"), namespace)
        except Exception:
            return False
        return self.bugs <= seen


def _run(coroutine: Any) -> None:
    with contextlib.suppress(StopIteration):
        coroutine.send(None)
