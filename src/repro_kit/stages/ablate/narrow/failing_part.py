"""Find the graph that fails, the subsystem without which the failure goes away, and the operator at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repro_kit.diagnosis.culprit import is_custom_pass
from repro_kit.diagnosis.evidence import Finding, Link, Side, Untried
from repro_kit.failure.signature import RunOutcome
from repro_kit.probe.repro_probe.protocol.orders import Switch
from repro_kit.probe.repro_probe.protocol.queries import Subsystem
from repro_kit.reduce.boundary import Boundary, boundary_search, needed
from repro_kit.stages.ablate.narrow.experiments import (
    Applied,
    Experiment,
    Experiments,
    Found,
    OutOfTime,
    Variation,
    not_taken,
)
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
    border = boundary_search(-1, last, ask, experiments.jobs)
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


_WHOLE = 40  # most runs of the search for all operators of a fusion
_PASSES = 1  # the rank of subsystems that rewrite a graph, each for the next
_OFF = -1  # all applications after this number are off, so all are


def subsystem_and_op(
    experiments: Experiments, subsystems: Mapping[str, Sequence[Subsystem]] | None, ui: Ui, *, op: bool
) -> Found:
    """Links for the subsystem and one of its applications. `subsystems`: those that torch lists, by backend."""
    backend = experiments.runner.cell.recipe.backend
    if not subsystems:
        return not_taken("subsystem", "this torch has no CompilerBisector to switch subsystems with")
    of_backend = subsystems.get(backend)
    if not of_backend:
        return not_taken("subsystem", f"backend {backend!r} has no subsystems that can be switched off")
    ui.progress("looking for the part at fault: what each part of the compiler does")
    (base,) = experiments.ask([Variation(switch={})])
    if not base.fails:
        return not_taken("subsystem", f"with empty caches the subject {base.words}")
    applied = {subsystem["name"]: _of(base, backend, subsystem["name"]) for subsystem in of_backend}
    # Without lowerings, eager's kernels run the output of the passes, and a wrong pass stays wrong. So lowerings come
    # first: if the failure goes away without them, a pass can only have made what is then lowered wrongly.
    ordered = sorted(
        (subsystem for subsystem in of_backend if "setting" in subsystem or applied[subsystem["name"]]), key=_rank
    )
    answers: list[tuple[str, Experiment]] = []
    for rank in sorted(set(map(_rank, ordered))):
        tried = [subsystem for subsystem in ordered if _rank(subsystem) == rank]
        ui.progress(
            f"looking for the part at fault: {backend} without {', '.join(subsystem['name'] for subsystem in tried)}"
        )
        before = experiments.spent()
        answers_off = experiments.ask([_off(backend, subsystem) for subsystem in tried])
        answers += [(subsystem["name"], experiment) for subsystem, experiment in zip(tried, answers_off, strict=True)]
        gone = [subsystem for subsystem, experiment in zip(tried, answers_off, strict=True) if experiment.passes]
        if rank == _PASSES:  # torch lists them as they run: those before the last one made what that one cannot take
            gone.reverse()
        if gone:
            links, untried = _links(experiments, backend, gone, applied, base, before, ui, op=op)
            return Found([replace(links[0], tried=_tried(answers)), *links[1:]], untried)
    still_passing = [f"without {name} {experiment.words}" for name, experiment in answers if not experiment.fails]
    words = f" ({'; '.join(still_passing)})" if still_passing else ""
    why = f"the failure does not go away without any one of {len(answers)} subsystems{words}"
    return Found(untried=[Untried("op", why, _tried(answers))])


def _tried(answers: Sequence[tuple[str, Experiment]]) -> tuple[Side, ...]:
    return tuple(Side(name, experiment.words) for name, experiment in answers)


def _rank(subsystem: Subsystem) -> int:
    return 2 if "setting" in subsystem else 0 if subsystem["name"] in ("lowerings", "decomposition") else _PASSES


def _links(
    experiments: Experiments,
    backend: str,
    gone: Sequence[Subsystem],
    applied: Mapping[str, Sequence[Applied]],
    base: Experiment,
    before: tuple[int, float],
    ui: Ui,
    *,
    op: bool,
) -> tuple[list[Link], list[Untried]]:
    """Links for the subsystems without which the failure is gone; the first is the one to name."""
    links: list[Link] = []
    untried: list[Untried] = []
    for number, subsystem in enumerate(gone):
        beside = number > 0
        link = _subsystem_link(experiments, backend, subsystem, len(applied[subsystem["name"]]), base, beside=beside)
        links.append(experiments.costed(link, before) if not beside else link)
        if op and "setting" not in subsystem:
            try:
                op_links, missing = _op(experiments, backend, subsystem["name"], applied[subsystem["name"]], ui)
                if op_links and op_links[0].finding == "users-pass":
                    op_links += _not_lowered(experiments, backend)
            except OutOfTime as over:
                op_links, missing = [], [Untried("op", f"{over}; to go on, use repro-kit ablate --narrow op")]
            links += [replace(link, beside=link.beside or beside) for link in op_links]
            untried += missing
    return links, untried


def _of(experiment: Experiment, backend: str, subsystem: str) -> list[Applied]:
    return [
        application
        for application in experiment.applied
        if (application.backend, application.subsystem) == (backend, subsystem)
    ]


def _off(backend: str, subsystem: Subsystem) -> Variation:
    if "setting" in subsystem:
        return Variation(config={subsystem["setting"]: subsystem["value"]})
    return _until(backend, subsystem["name"], _OFF)


def _until(backend: str, subsystem: str, last: int) -> Variation:
    return Variation(switch={"backend": backend, "subsystem": subsystem, "last": last})


def _subsystem_link(
    experiments: Experiments, backend: str, subsystem: Subsystem, count: int, base: Experiment, *, beside: bool
) -> Link:
    change = _off(backend, subsystem)
    if "setting" in subsystem:
        name = f"{subsystem['setting']}={subsystem['value']!r}"
        return Link(
            "subsystem", name, f"The failure is gone with {name}.", good=experiments.side(name, change), beside=beside
        )
    claim = f"The failure is gone with {subsystem['name']} off ({count} of them ran)."
    good = experiments.side(f"all {count} {subsystem['name']} off", change)
    bad = experiments.side("all on", _until(backend, subsystem["name"], count), base)
    return Link("subsystem", subsystem["name"], claim, good, bad, beside=beside)


def _op(
    experiments: Experiments, backend: str, subsystem: str, applied: Sequence[Applied], ui: Ui
) -> tuple[list[Link], list[Untried]]:
    """The first application that must be on for the failure, with all later applications off."""
    before = experiments.spent()

    def ask(points: Sequence[int]) -> list[RunOutcome]:
        ui.progress(f"looking for the part at fault: which of {len(applied)} {subsystem}")
        return experiments.outcomes([_until(backend, subsystem, at) for at in points])

    border = boundary_search(_OFF, len(applied) - 1, ask, experiments.jobs)
    name, claim = _named(subsystem, applied, border)
    good = experiments.side(_up_to(subsystem, border.good), _until(backend, subsystem, border.good))
    bad = experiments.side(_up_to(subsystem, border.bad), _until(backend, subsystem, border.bad))
    last = applied[border.bad]
    whose: Finding = "users-pass" if is_custom_pass(last.name) else ""
    link = experiments.costed(Link("op", name, claim, good, bad, where=last.line, finding=whose), before)
    if border.sharp:
        return [link, _alone(experiments, backend, subsystem, border.bad, applied)], []
    why = f"no run between #{border.good} and #{border.bad} of {subsystem} gave an answer"
    return [link], [Untried("op", why)]


def _named(subsystem: str, applied: Sequence[Applied], border: Boundary) -> tuple[str, str]:
    last = applied[border.bad]
    name = f"#{border.bad} {last.name}".rstrip()
    if border.sharp:
        whose = ", a pass that your own code gave to torch" if is_custom_pass(last.name) else ""
        of = f", the only one of {subsystem}" if len(applied) == 1 else f" of {len(applied)} {subsystem}"
        return name, f"The failure begins with application {name}{of}{whose}."
    first = border.good + 1
    return f"#{first}-{name[1:]}", f"The failure begins with one of applications #{first} to {name} of {subsystem}."


def _up_to(subsystem: str, last: int) -> str:
    return f"{subsystem} up to #{last} on, the rest off" if last >= 0 else f"all {subsystem} off"


def _alone(experiments: Experiments, backend: str, subsystem: str, number: int, applied: Sequence[Applied]) -> Link:
    """A link for application `number` alone: the result with only it off, and with only it on."""
    switch: Switch = {"backend": backend, "subsystem": subsystem}
    before = experiments.spent()
    off, on = Variation(switch={**switch, "without": [number]}), Variation(switch={**switch, "only": [number]})
    without, only = experiments.ask([off, on])
    claim = f"With #{number} alone off the subject {without.words}; with #{number} alone on the subject {only.words}"
    if only.passes:
        claim += _together(experiments, switch, number, applied)
    mended = without.passes
    instead = "eager's kernel for that operator" if subsystem == "lowerings" else "that one off"
    link = Link(
        "op",
        f"gone with {instead}" if mended else f"not gone without #{number} alone",
        f"{claim}.",
        experiments.side(f"#{number} alone off", off) if mended else None,
        experiments.side(f"#{number} alone on", on) if only.fails else None,
        beside=not mended,
        finding="alone",
    )
    return experiments.costed(link, before)


def _not_lowered(experiments: Experiments, backend: str) -> list[Link]:
    """A link for a failure that stays with all lowerings off; none if it does not."""
    change = _until(backend, "lowerings", _OFF)
    (experiment,) = experiments.ask([change])
    if not experiment.fails:
        return []
    claim = "With all lowerings off, eager's kernels run what the passes return, and the subject fails as observed."
    side = experiments.side("all lowerings off", change, experiment)
    return [Link("op", "not gone without lowerings", claim, bad=side, beside=True, finding="stays-without-lowerings")]


def _together(experiments: Experiments, switch: Switch, number: int, applied: Sequence[Applied]) -> str:
    """The other applications that the failure needs, in words, if application `number` alone does not fail."""

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return experiments.outcomes([Variation(switch={**switch, "only": [*kept, number]}) for kept in sets])

    if number == 0 or ask([list(range(number))])[0] is not RunOutcome.FAILS_ALIKE:
        return ""
    companions, sure = needed(list(range(number)), ask, experiments.jobs, _WHOLE)
    if not companions:
        return ""
    named = ", ".join(f"#{at} {applied[at].name}".rstrip() for at in companions[:8])
    more = f" and {len(companions) - 8} more" if len(companions) > 8 else ""
    return f": the failure also needs {'' if sure else 'at most '}{named}{more}"
