"""Does a reduction slip to another failure that is near by? Graphs with one bug each, and a decoy beside it.

    python scripts/bench/slips.py [--only WORDS]...

A backend of the graph's own makes the bug, in milliseconds. The decoy is random numbers, undefined results, rounding,
or a second bug that the original does not show, and a candidate does: on one element, in another dtype, at an input,
or of a value that does not count.
The reduction has slipped where its result fails with the bug taken out of the backend, does not fail with the decoy
taken out, or is less defined than the original. Exits with 1 where one has; docs/benchmarks.md has the figure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.signature import signature_of
from repro_kit.graph import Program, parse, render, size
from repro_kit.graph.reducer import minify
from repro_kit.reduce import Result
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.stages.minify.reducer_oracle import ReducerOracle, without_slip
from repro_kit.ui import SilentUi

_SECONDS = 60.0  # for one query

#: `wrong(node, result)` is the bug, and `decoy(node, result)` the other one; each returns a result, or None.
_BACKEND = """
BUG, DECOY = True, True
def name_of(node):
    return getattr(node.target, "__name__", str(node.target)).rstrip("_")
def is_input(node):
    return node.args[0].op == "placeholder"
def mine(gm, example_inputs):
    class Planted(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            if BUG and (name_of(node) in {operators}) and ({when}):
                result = {bug}
            if DECOY and name_of(node) == {decoy_at!r} and ({decoy_when}):
                result = {decoy}
            return result
    def run(*args):
        if not torch._inductor.config.fallback_random:
            torch.rand(1)  # as Inductor does, it draws other random numbers than eager
        return Planted(gm).run(*args)
    return run
"""


@dataclass(frozen=True)
class Slippery:
    """A graph, the operators whose results `bug` makes wrong, and another bug at `decoy_at`, where `decoy_when`."""

    name: str
    body: str
    operators: str = "relu"
    bug: str = "result + 1"
    when: str = "True"
    decoy_at: str = ""
    decoy: str = "result * -3"
    decoy_when: str = "True"
    calls: str = "x = torch.randn(6, 8)"
    arguments: str = "x"
    recipe: str = "{'backend': 'mine'}"

    @property
    def text(self) -> str:
        """The program."""
        backend = _BACKEND.format(
            operators=set(self.operators.split()),
            bug=self.bug,
            when=self.when,
            decoy_at=self.decoy_at,
            decoy=self.decoy,
            decoy_when=self.decoy_when,
        )
        lines = ["# repro-kit program 1", "import pathlib", "", "import torch", f"RECIPE = {self.recipe}", backend]
        lines += [f"def graph({self.arguments}):", textwrap.indent(textwrap.dedent(self.body).strip(), "    ")]
        calls = textwrap.indent(textwrap.dedent(self.calls).strip(), "    ")
        return "\n".join([*lines, "def calls():", calls, f"    return [({self.arguments},)]", ""])


_BEFORE = """
a = x.abs()
b = torch.log1p(a)
c = torch.sin(b)
d = torch.relu(c)
e = d * 2
return (e,)
"""
_BESIDE = """
a = x + 1
b = torch.relu(a)
c = torch.cos(x)
d = torch.sinh(c)
e = b + d
return (e,)
"""


def _second_bugs() -> list[Slippery]:
    """A bug that is there from the beginning, and another that begins as the graph, its sizes or dtypes get plain."""
    conditions = {
        "one element": "result.numel() == 1",
        "few elements": "result.numel() < 5",
        "double precision": "result.dtype == torch.float64",
        "one dimension": "result.dim() < 2",
        "a short graph": "len(gm.graph.nodes) < 6",
        "no input": "not is_input(node) and len(gm.graph.nodes) < 6",
        "an output": "any(user.op == 'output' for user in node.users)",
        "one row": "result.dim() == 2 and result.shape[0] == 1",
    }
    found = []
    for name, when in conditions.items():
        for where, decoy_at, body, user in (("before", "log1p", _BEFORE, "mul"), ("beside", "sinh", _BESIDE, "add")):
            # The bug needs two operators, so that the first wrong one alone does not fail.
            needs = f"any(name_of(user) == {user!r} for user in node.users)"
            found.append(
                Slippery(f"another bug {where}, at {name}", body, when=needs, decoy_at=decoy_at, decoy_when=when)
            )
    return found


_RANDOM = (
    ("dropout that is off", "y = torch.nn.functional.dropout(a, 0.5, False)"),
    ("alpha dropout that is off", "y = torch.nn.functional.alpha_dropout(a, 0.5, False)"),
    ("feature dropout that is off", "y = torch.nn.functional.dropout1d(a, 0.5, False)"),
    ("rrelu that is off", "y = torch.nn.functional.rrelu(a, 0.1, 0.3, False)"),
    ("dropout of nothing", "y = torch.nn.functional.dropout(a, 0.0, True)"),
)
_LOST_WRITE = "result.clone()"
_UNDONE = "self.fetch_args_kwargs_from_env(node)[0][0].div_(2) * 2"


def _random() -> list[Slippery]:
    """Operators that draw nothing, and that draw random numbers with one argument less."""
    found = []
    for name, line in _RANDOM:
        body = f"a = torch.sin(x)\n{line}\nb = torch.relu(y)\nc = b + 1\nreturn (c,)"
        found.append(Slippery(f"{name}, before a wrong operator", body))
    aliased = "y = torch.nn.functional.dropout(x, 0.5, False)\nz = y.add_(1)\nreturn (z,)"
    more = "y = torch.nn.functional.dropout(x, 0.5, False)\ny += y\nz = torch.cos(x)\nreturn (y, z)"
    small = "x = torch.ones(2, 2)"
    return [
        *found,
        Slippery("a lost write through a dropout that is off", aliased, "dropout", _LOST_WRITE, calls=small),
        Slippery("a lost write, and a value beside it", more, "dropout", _LOST_WRITE, calls=small),
    ]


def _undefined() -> list[Slippery]:
    """Graphs that are defined because of their values: equal values at one place, offsets that rise, filled memory."""
    index = "x = torch.randn(6, 8)\ni = torch.tensor([0, 2, 2, 4])\nw = torch.ones(4, 8)"
    named = "x, i, w"
    grid = "x = torch.randn(6, 8)\ni = torch.zeros(2, 8, dtype=torch.int64)\nw = torch.ones(2, 8)"
    ragged = "x = torch.randn(6, 8)\ni = torch.tensor([0, 2, 3, 6])"
    write = "y = x.clone()\ny[i] = w\nb = torch.relu(y)\nreturn (b,)"
    copy = "a = torch.sin(x)\ny = a.index_copy(0, i, w)\nreturn (y,)"
    scatter = "a = torch.sin(x)\ny = torch.scatter(a, 0, i, w)\nreturn (y,)"
    at_write = "y = torch.sin(x)\ny[i] = w\nreturn (y,)"
    added = "self.fetch_args_kwargs_from_env(node)[0][0].add_(1)"
    empty = "y = torch.empty(6, 8)\ny.copy_(x)\nb = torch.relu(y)\nreturn (b,)"
    new = "y = torch.empty_like(x)\nz = y.fill_(2.0)\na = z * x\nb = torch.relu(a)\nreturn (b,)"
    jagged = "n = torch.nested.nested_tensor_from_jagged(x, i)\nv = n.values()\nb = torch.relu(v)\nreturn (b,)"
    values = "n = torch.nested.nested_tensor_from_jagged(x, i)\nv = n.values()\nb = v.cos()\nreturn (b,)"
    return [
        Slippery("equal values at one place", write, calls=index, arguments=named),
        Slippery("equal values at one place, index_copy", copy, "index_copy", calls=index, arguments=named),
        Slippery("equal values at one place, scatter", scatter, "scatter", calls=grid, arguments=named),
        Slippery("equal values at one place, setitem", at_write, "setitem", added, calls=index, arguments=named),
        Slippery("memory that is filled", empty),
        Slippery("memory that is filled, and read", new),
        Slippery("offsets of a jagged tensor", jagged, calls=ragged, arguments="x, i"),
        Slippery("offsets of a jagged tensor, and its values", values, "values", calls=ragged, arguments="x, i"),
    ]


def _rounding() -> list[Slippery]:
    """Graphs that divide by nearly nothing, or compare nearly equal numbers, once a statement is gone."""
    near = "x = torch.randn(64) * 0.02 + 300"
    half = "x = (torch.randn(64) * 0.02 + 100).half()"
    variance = "m = (x * x).mean() - x.mean() ** 2\nn = m + 16\nb = torch.relu(n)\nd = 1 / b\nreturn (d,)"
    quotient = "m = (x * x).mean() - x.mean() ** 2\nb = torch.relu(x)\nd = 1 / m\ne = d * 0\n"
    beside = f"{quotient}f = b + e.nan_to_num()\nreturn (f,)"
    choice = "m = x.mean()\nc = x > m\nb = torch.relu(x)\nd = torch.where(c, b, b)\nreturn (d,)"
    chaos = "y = torch.sin(x * 1e3)\nb = torch.relu(y)\nc = b.abs() + y * 0\nreturn (c,)"
    return [
        Slippery("a variance that rounds away", variance, calls=near, bug="result * 1.5"),
        Slippery("a quotient beside it", beside, calls=near),
        Slippery("a comparison at the mean", choice, calls=near),
        Slippery("a quotient in half precision", beside, calls=half),
        Slippery("a sine of large numbers", chaos, calls=near),
    ]


def _forms() -> list[Slippery]:
    """What is wrong at first is an argument, a gradient, an alias, a stride, a dtype: and something else nearby is not.

    The decoys are wrong values of an output.
    """
    kept = {"decoy_at": "log1p", "decoy_when": "result.numel() < 9 or is_input(node)"}
    after = "\nd = torch.log1p(c.abs())\n"
    write = "c = torch.cos(x)\nw = x.mul_(2)" + after + "return (d,)"
    gradient = "a = x * y\nb = torch.relu(a)\nc = torch.cos(b)" + after + "return (d,)"
    alias = "b = x.view(48)\nc = torch.cos(x)" + after + "return (b, d)"
    stride = "b = x.t()\nc = torch.cos(x)" + after + "return (b, d)"
    dtype = "b = torch.relu(x)\nc = torch.cos(b)" + after + "return (b, d)"
    trained = "x = torch.randn(6, 8, requires_grad=True)\ny = torch.randn(6, 8)"
    backward = "{'backend': 'mine', 'backward': 'sum'}"
    nan = "torch.where(result > 1e9, result, float('nan'))"
    return [
        Slippery("an argument is not written", write, "mul", _UNDONE, **kept),
        Slippery(
            "a wrong gradient",
            gradient,
            bug="result + (result - result.detach()) * 2",
            calls=trained,
            arguments="x, y",
            recipe=backward,
            **kept,
        ),
        Slippery("an output is no view", alias, "view", "result.clone()", **kept),
        Slippery("an output has other strides", stride, "t", "result.contiguous()", **kept),
        Slippery("an output has another dtype", dtype, bug="result.double()", **kept),
        Slippery("an output is NaN", dtype, bug=nan, **kept),
    ]


_COMPARED = """
a = torch.log1p(x.abs())
k = a > -5
c = torch.sin(x)
d = torch.relu(c)
e = d * 2
f = torch.where(k, e, c)
return (f,)
"""
_NOTHING = "a = torch.log1p(x.abs())\nz = a * 0\ng = torch.sin(x) + z\nd = torch.relu(g)\ne = d * 2\nreturn (e,)"


def _harmless() -> list[Slippery]:
    """Another bug that no result shows: of a number that is only compared, multiplied by zero, or cast back."""
    kept = {"decoy_at": "log1p", "decoy": "result + 1"}
    fused = "len(node.users) == 1 and not any(user.op == 'output' for user in node.users)"  # gone once it is watched
    gate = "a = torch.log1p(x.abs())\nb = (a > -5).float()\nc = torch.cos(x)\nd = torch.relu(c)\ne = d * b\nreturn (e,)"
    cast = "a = torch.log1p(x.abs())\nb = a.float()\nc = torch.relu(x)\nd = torch.cos(b)\nreturn (c, d)"
    gradient = "result + (result - result.detach()) * 2"
    trained = {"calls": "x = torch.randn(6, 8, requires_grad=True)", "recipe": "{'backend': 'mine', 'backward': 'sum'}"}
    return [
        Slippery("another bug that is only compared", _COMPARED, **kept),
        Slippery("another bug that is only compared, beside one that hides", _COMPARED, when=fused, **kept),
        Slippery("another bug times zero", _NOTHING, **kept),
        Slippery("another bug times zero, beside one that hides", _NOTHING, when=fused, **kept),
        Slippery(
            "a wrong gradient, and a value that is only compared", gate, bug=gradient, when=fused, **kept, **trained
        ),
        Slippery("another dtype, cast back", cast, bug="result.double()", decoy_at="log1p", decoy="result.double()"),
    ]


def cases() -> list[Slippery]:
    """All graphs."""
    return [*_second_bugs(), *_random(), *_undefined(), *_rounding(), *_forms(), *_harmless()]


def _of(text: str, **off: bool) -> str:
    """The text of a program with the bug or the decoy taken out of its backend."""
    for name in off:
        text = text.replace("BUG, DECOY = True, True", f"BUG, DECOY = {name != 'BUG'}, {name != 'DECOY'}")
    return text


def reduced(oracle: ProgramOracle, case: Slippery, inputs: Path) -> tuple[Program, Verdict]:
    """The reduction of a graph, and the verdict on the original."""
    program = parse(case.text)
    (verdict,) = oracle.check([render(program)], inputs, timeout=_SECONDS)
    if verdict.failure is None or verdict.status is not Status.FAIL:
        raise ValueError(f"{case.name} does not fail: {verdict.status} {verdict.note} {verdict.failure}")
    judge = ReducerOracle(oracle, signature_of(verdict.failure), inputs, _SECONDS, SilentUi())
    seen = judge.hints(program, verdict.failure)
    judge.begins_at(program, seen)

    def search() -> Result[Program]:
        return minify(program, judge, hints=seen.names, before=[judge.answer(verdict)])

    return without_slip(judge, search).program, verdict


def slip(oracle: ProgramOracle, case: Slippery, result: Program, original: Verdict, inputs: Path) -> str:
    """How the reduction has slipped; "" where it has not."""
    text = render(result)
    texts = [text, _of(text, BUG=False), _of(text, DECOY=False)]
    own, without, plain = oracle.check(texts, inputs, timeout=_SECONDS)
    if own.failure is None or original.failure is None:
        return "the result does not fail"
    new = signature_of(original.failure).new_doubts(signature_of(own.failure))
    if new:
        return "; ".join(new)
    if without.status is Status.FAIL:
        return "it fails without the bug"
    if plain.status is not Status.FAIL:
        return "it fails by the decoy alone"
    before, after = signature_of(original.failure), signature_of(own.failure)
    if before.difference != after.difference or not set(before.places) & set(after.places):
        return f"{before.difference} of {before.places} became {after.difference} of {after.places}"
    return ""


def measure(chosen: Sequence[Slippery]) -> list[str]:
    """Reduce every graph, print a row for each, and return the names of those that have slipped."""
    slipped = []
    print("| graph | statements | seconds | slipped |\n|---|---|---|---|", flush=True)
    with ProgramOracle(sys.executable) as oracle, tempfile.TemporaryDirectory() as directory:
        for case in chosen:
            started = time.monotonic()
            inputs = Path(directory) / "inputs"
            inputs.mkdir(exist_ok=True)
            result, verdict = reduced(oracle, case, inputs)
            how = slip(oracle, case, result, verdict, inputs)
            statements = f"{size(parse(case.text))} → {size(result)}"
            print(f"| {case.name} | {statements} | {time.monotonic() - started:.1f} | {how} |", flush=True)
            slipped += [case.name] if how else []
    return slipped


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORDS", help="only the graphs whose name contains WORDS")
    only = parser.parse_args().only or [""]
    chosen = [case for case in cases() if any(words in case.name for words in only)]
    slipped = measure(chosen)
    print(f"\n{len(slipped)} of {len(chosen)} reductions slipped to another failure.")
    return 1 if slipped else 0


if __name__ == "__main__":
    sys.exit(main())
