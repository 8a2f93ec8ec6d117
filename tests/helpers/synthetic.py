"""Programs and oracles without torch: which statements are the bug is decided by their operators."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence

from repro_kit.graph import Data, Function, Program, Statement, TensorInput
from repro_kit.graph.program import canonical
from repro_kit.graph.values import TensorRecord
from repro_kit.reduce import Answer, RunOutcome

SHAPE = (2, 3)


def build(count: int, culprits: dict[int, str], seed: int = 0, chain: bool = False) -> Program:
    """`count` statements on one or two earlier values; those at `culprits` have the operator named there."""
    rng = random.Random(seed)
    names = ["x", "y"]
    statements = []
    for at in range(count):
        operands = [names[-1]] if chain else rng.choices(names[-6:], k=rng.choice((1, 1, 2)))
        statements.append(Statement(f"v{at}", f"torch.{culprits.get(at, 'fine')}({', '.join(operands)})"))
        names.append(f"v{at}")
    read = {name for statement in statements for name in statement.reads}
    outputs = [name for name in names[2:] if name not in read]
    inputs = (TensorInput("x", Data("randn", SHAPE)), TensorInput("y", Data("load", None, ("y.pt",))))
    returns = canonical(None, ast.parse(f"({', '.join(outputs)},)", mode="eval").body)
    return Program(Function("graph", ("x", "y"), tuple(statements), returns), inputs=inputs, calls=(("x", "y"),))


def op_name(statement: Statement) -> str:
    return statement.text.partition("(")[0].removeprefix("torch.")


class Synthetic:
    """Fails alike when every operator of `bugs` is there (with `path`: each fed by the one before)."""

    def __init__(self, bugs: Sequence[str], *, path: bool = False, jobs: int = 1, die_at: int | None = None) -> None:
        self.bugs, self.path, self.jobs, self.die_at = list(bugs), path, jobs, die_at
        self.count = 0
        self.seen: list[Program] = []

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            if self.count == self.die_at:
                raise KeyboardInterrupt
            self.count += 1
            self.seen.append(program)
            outcome = RunOutcome.FAILS_ALIKE if self.fails(program) else RunOutcome.PASSES
            yield Answer(outcome, 0.01)

    def fails(self, program: Program) -> bool:
        statements = program.graph.statements
        if not self.path:
            return set(self.bugs) <= {op_name(statement) for statement in statements}
        reached = dict.fromkeys(program.graph.params, 0)
        for it in statements:
            best = max((reached.get(name, 0) for name in it.reads), default=0)
            hit = best < len(self.bugs) and op_name(it) == self.bugs[best]
            reached[it.target or ""] = best + hit
        return len(self.bugs) in reached.values()

    def record(self, program: Program) -> dict[str, TensorRecord]:
        names = [
            *program.graph.params,
            *(statement.target for statement in program.graph.statements if statement.target),
        ]
        return {name: TensorRecord(SHAPE, (3, 1)) for name in names}

    def adopt(self, answer: Answer) -> None:
        raise AssertionError("no answer here is equivalent")

    def fake_valid(self, programs: Sequence[Program]) -> list[bool | None]:
        return [None] * len(programs)
