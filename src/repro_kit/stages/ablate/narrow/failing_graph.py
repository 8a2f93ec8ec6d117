"""Find the graph of the script that fails."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.model.ablation.evidence import Link, Side, Untried
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.first import first_failing
from repro_kit.stages.ablate.narrow.experiments import Experiments, Found, Variation, not_taken
from repro_kit.trace import summarise
from repro_kit.trace.record import frame_of
from repro_kit.ui import Ui


def which_graph(experiments: Experiments, ui: Ui) -> Found:
    """The first graph that must be compiled for the failure, with all later graphs in eager."""
    case = experiments.runner.cells.case
    capture = experiments.runner.capture
    if capture is not None:
        if capture.graph is None or not capture.graphs:
            return Found()
        which = f"of the script's {capture.graphs}" if capture.graphs > 1 else "(the script has no other)"
        alone = f"Graph {capture.graph} {which} fails alone, as a program."
        claim = f"{alone} {capture.own_check}".strip()
        bad = Side("its program", "fails as observed", experiments.repeat(Variation()))
        return Found([Link("graph", f"graph {capture.graph}", claim, bad=bad)])
    if experiments.runner.cell.recipe.backend == "eager":
        return not_taken("graph", "with backend 'eager' no graph can be left to another backend")
    compile_ids = summarise(case.path / "observe" / "trace").compile_ids
    frames = sorted({frame for frame in map(frame_of, compile_ids) if frame is not None})
    if len(frames) < 2:
        return Found() if frames else not_taken("graph", "the trace of the script names no graphs")
    return _searched(experiments, frames, ui)


def _searched(experiments: Experiments, frames: Sequence[int], ui: Ui) -> Found:
    before = experiments.spent()
    last = len(frames) - 1

    def compiled(at: int) -> Variation:
        """A variation that compiles the frames up to index `at`, and runs later frames in eager."""
        return Variation(eager=f">={frames[at] + 1}" if at >= 0 else ">=0")

    def ask(points: Sequence[int]) -> list[RunOutcome]:
        ui.progress(f"looking for the part at fault: which of {len(frames)} graphs")
        return experiments.outcomes([compiled(at) for at in points])

    none, every = ask([-1, last])
    if (none, every) != (RunOutcome.PASSES, RunOutcome.FAILS_ALIKE):
        all_eager = experiments.ask([compiled(-1)])[0]
        return not_taken("graph", f"with all graphs in eager the script {all_eager.words}")
    border = first_failing(-1, last, ask, experiments.jobs)
    name = f"graph {frames[border.bad]}"
    claim = f"The failure begins with {name} of {len(frames)}, with the later graphs in eager."
    good = experiments.side(f"graphs before {frames[border.bad]} compiled", compiled(border.good))
    bad = experiments.side(f"graphs up to {frames[border.bad]} compiled", compiled(border.bad))
    (alone,) = experiments.ask([Variation(eager=str(frames[border.bad]))])
    claim += f" With {name} alone in eager the script {alone.words}."
    link = experiments.costed(Link("graph", name, claim, good, bad), before)
    if border.sharp:
        return Found([link])
    why = f"graphs {frames[border.good + 1]} to {frames[border.bad]} could not be told apart"
    return Found([link], [Untried("graph", why)])
