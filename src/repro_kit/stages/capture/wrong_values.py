"""Where the values of a captured graph begin to differ from eager, and why they are rounded otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ROUNDING, WrongStatement
from repro_kit.failure.differences import ResultErrors, Rounding, SettingTried
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import Program, parse, render
from repro_kit.graph.effects import op_name
from repro_kit.probe.repro_probe.protocol.queries import RoundingData
from repro_kit.serialize import from_data
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt
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


_CHAOTIC = 1e4  # the growth of one rounding error from which a model counts as chaotic
_ALONE = Rounding(evidence=("the captured graph is as close to double precision as eager",))
#: The reasons by the operator at which the two part; the first that fits counts.
_REASONS = (
    ({"argmax", "argmin", "topk", "sort", "argsort", "max", "min", "median", "mode"}, "a choice that flips"),
    (
        {"matmul", "mm", "bmm", "addmm", "baddbmm", "linear", "conv1d", "conv2d", "conv3d", "einsum"}
        | {"scaled_dot_product_attention"},
        "a product that is accumulated in another order or precision",
    ),
    (
        {"sum", "mean", "softmax", "log_softmax", "logsumexp", "norm", "var", "std", "var_mean", "cumsum", "prod"}
        | {"layer_norm", "rms_norm", "group_norm", "batch_norm", "cross_entropy", "mse_loss", "nll_loss"},
        "another order of a reduction",
    ),
)
_OTHERWISE = "other instructions for the same operator (a fused multiply-add, a vectorised function)"


def explain(case: Case, ui: Ui, search: GraphSearch, *, alone: bool = False) -> None:
    """Add what the first graph shows that differs by rounding alone; do nothing without a rounding verdict.

    `alone`: the graph itself is the verdict, since it fails under the tolerance that it is held to.
    """
    if not search.rounded or not (alone or (case.holds(ROUNDING) and not case.load(ROUNDING).random)):
        return
    attempt = search.rounded[-1 if alone else 0]
    ui.progress(f"looking for the reason why graph {attempt.graph.compile_id} rounds differently from eager")
    with open_oracle(case) as oracle:
        data = oracle.explain_rounding(attempt.text, search.inputs, timeout=PATIENCE * search.timeout)
    if data is not None:
        verdict = _ALONE if alone else case.load(ROUNDING)
        case.store(ROUNDING, _with(verdict, attempt, data))


def _with(rounding: Rounding, attempt: Attempt, data: RoundingData) -> Rounding:
    program = parse(attempt.text)
    tried = from_data(data["tried"], tuple[SettingTried, ...])
    restored_by = next((trial.setting for trial in tried if trial.agrees), "")
    names = set(data["first"])
    first = [statement.line for statement in program.graph.statements if statement.target in names]
    return replace(
        rounding,
        errors=rounding.errors or from_data(data["errors"], tuple[ResultErrors, ...]),
        first=tuple(first[:MOST_NAMED]),
        why=_why(program, first[:1], restored_by, data["growth"]),
        growth=data["growth"],
        restored_by=restored_by,
        tried=tried,
    )


def _why(program: Program, first: Sequence[str], restored_by: str, growth: float) -> str:
    """The reason in words: measured if a setting restores eager's rounding, else read off the first operator."""
    if growth >= _CHAOTIC:
        return f"the model is chaotic, since it makes one rounding error {growth:.2g} times larger"
    if "emulate_precision_casts" in restored_by:
        return "a rounding to the narrow dtype, which eager makes between two operators, is left out in a fused kernel"
    if "fallback_random" in restored_by:
        return "the compiled graph draws other random numbers"
    if restored_by:
        return "an operator is computed by a different rule than in eager"
    if not first:
        return ""
    names = {op_name(statement) for statement in program.graph.statements if statement.line in first}
    return "probably " + next((words for operators, words in _REASONS if names & operators), _OTHERWISE)
