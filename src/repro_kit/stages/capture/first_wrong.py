"""Name the statements at which a wrong result begins, with the user's lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import WrongStatement
from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Signature
from repro_kit.program import Program, render
from repro_kit.program.effects import op_name
from repro_kit.session.oracles import open_oracle
from repro_kit.ui import Ui

PATIENCE = 4.0  # times the limit of a query: the graph is compiled several times
MOST_NAMED = 3


def first_wrong(
    case: Case, ui: Ui, program: Program, signature: Signature | None, lines: Mapping[str, str], timeout: float
) -> tuple[WrongStatement, ...]:
    """The statements of `program` that are wrong although what they are computed from is right; empty where unknown.

    `lines`: of the user's code, by the name that a statement assigns. `timeout`: seconds for one query.
    """
    if signature is None or signature.kind is not Kind.ACCURACY or signature.rounding:
        return ()
    ui.progress("looking where the values begin to differ")
    with open_oracle(case) as oracle:
        inputs = case.path / "capture" / "inputs"
        divergence = oracle.diverge(render(program), inputs, timeout=PATIENCE * timeout)
    statements = {statement.target: statement for statement in program.graph.statements}
    return tuple(
        WrongStatement(name, named.line, op_name(named), divergence.backward, lines.get(name, ""))
        for name, named in ((name, statements[name]) for name in divergence.names)
    )


def show(ui: Ui, wrong: tuple[WrongStatement, ...]) -> None:
    """Show the first of the statements."""
    for first in wrong[:MOST_NAMED]:
        what = "gradient" if first.backward else "value"
        ui.note(f"The first wrong {what} is that of: {first.statement}{_at(first.line)}")


def _at(line: str) -> str:
    path, _, number = line.rpartition(":")
    directory = Path.cwd()
    shown = Path(path).relative_to(directory) if path and Path(path).is_relative_to(directory) else path
    return f" ({shown}:{number})" if path else ""
