"""`farm status`: how many cases are in which state, and the history of one case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from repro_kit.commands.farm.judging import FarmJudge
from repro_kit.commands.farm.place import FarmPlace, named_case
from repro_kit.errors import Exit
from repro_kit.farm.lifecycle import State
from repro_kit.farm.store import FarmCase, FarmStore
from repro_kit.farm.table import release_table
from repro_kit.model.serialize import to_data
from repro_kit.ui import Ui

_SHOWN = 50  # cases in the table
_OVER = (State.CLOSED, State.DUPLICATE)


def status(place: FarmPlace, words: Sequence[str], ui: Ui, *, states: Sequence[str] = ()) -> Exit:
    """Show the farm, or the cases that `words` name. Runs nothing."""
    with place.reading() as store:
        cases = store.cases()
        if words:
            shown = [_one(place, store, named_case(cases, word), ui) for word in words]
            ui.result({"cases": shown})
            return Exit.OK
    names = {case.id: case.name for case in cases}
    counts = Counter(case.state for case in cases)
    wanted = [case for case in cases if (case.state in states if states else case.state not in _OVER)]
    order = list(State)
    wanted.sort(key=lambda case: order.index(case.state))
    rows = [(case.name, case.state, case.since[:10], case.facts.summary, case.evidence) for case in wanted[:_SHOWN]]
    ui.table("", ("case", "state", "since", "failure", "evidence"), rows)
    if len(wanted) > _SHOWN:
        ui.note(f"{len(wanted) - _SHOWN} more are not shown; --state STATE, --json and `farm report` show them.")
    ui.print(", ".join(f"{state}: {counts[state]}" for state in State if counts[state]) or "The farm is empty.")
    ui.result(
        {
            "counts": {state: counts[state] for state in State},
            "cases": [{**case_data(case), "original": names.get(case.original or "")} for case in wanted],
        }
    )
    return Exit.OK


def case_data(case: FarmCase) -> dict[str, Any]:
    """The fields of a case in JSON."""
    return {
        "name": case.name,
        "id": case.id,
        "state": case.state,
        "since": case.since,
        "added": case.added,
        "failure": case.facts.summary,
        "layer": case.facts.layer,
        "operator": case.facts.operator or None,
        "evidence": case.evidence,
        "original": case.original,
        "issue": case.issue or None,
    }


def _one(place: FarmPlace, store: FarmStore, case: FarmCase, ui: Ui) -> dict[str, Any]:
    """Show one case: its state, its verdicts, its history."""
    judging = FarmJudge(place, store)
    results = judging.results(case)
    standing = judging.standing(case, results)
    again, rate = judging.repeat(case, standing), standing.rate
    lines = [("state", f"{case.state} since {case.since}"), ("failure", case.facts.summary), ("why", case.evidence)]
    lines += [("rate", rate)] if rate else []
    lines += [("issue", case.issue)] if case.issue else []
    lines += [("files", str(place.entry(case.id))), ("from", case.source)]
    lines += [("repeat", again)] if again else []
    ui.panel(case.name, lines)
    tables = []
    for line, of_line in results.items():
        table = release_table(of_line, case.facts.repeats)
        ui.table(line, table.columns, table.rows)
        ui.print(table.sentence)
        tables.append({"line": line, **table.as_json()})
    history = store.transitions(case.id)
    ui.table("history", ("when", "was", "became", "evidence"), [(c.at, c.before, c.after, c.evidence) for c in history])
    return {**case_data(case), "rate": rate or None, "repeat": again, "tables": tables, "history": to_data(history)}
