"""Which subsystem of a backend the failure goes away without, and which of its applications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from repro_kit.model.evidence import Link, Untried
from repro_kit.reduce.first import Boundary, first_failing, needed
from repro_kit.stages.trials import Applied, Change, Trial, Trials
from repro_kit.ui import Ui

_WHOLE = 40  # runs that finding all operators of a fusion may take
_OFF = -1  # after this number, all applications are off


def subsystem_and_op(trials: Trials, base: Trial, ui: Ui, *, op: bool) -> tuple[list[Link], list[Untried]]:
    """Links for the subsystem and for one of its applications; `base` is the failing run, which noted them all."""
    backend = trials.cell.recipe.backend
    known = trials.levers().get("subsystems")
    if not known:
        return [], [Untried("subsystem", "this torch has no CompilerBisector to switch subsystems with")]
    if not known.get(backend):
        return [], [Untried("subsystem", f"backend {backend!r} has no subsystems that can be switched off")]
    counts = {it["name"]: _of(base, backend, it["name"]) for it in known[backend]}
    tried = [it for it in known[backend] if "setting" in it or counts[it["name"]]]
    ui.progress(f"narrowing: {len(tried)} subsystems of {backend}, one off at a time")
    started = trials.seconds
    answers = trials.ask([_off(backend, it) for it in tried])
    gone = [it for it, trial in zip(tried, answers, strict=True) if trial.fails is False]
    if not gone:
        others = [f"{it['name']}: {trial.outcome}" for it, trial in zip(tried, answers, strict=True) if not trial.fails]
        why = "; ".join(["no subsystem is it gone without", *others])
        return [], [Untried("op", why)]
    # Without lowerings, what the passes made is run by eager's kernels: a wrong pass stays wrong then. So lowerings
    # come first, and passes the failure also goes away without only make what is lowered wrongly.
    main = min(gone, key=lambda it: ("setting" in it, it["name"] != "lowerings"))
    links = []
    for it in [main, *(other for other in gone if other is not main)]:
        links.append(_subsystem_link(trials, backend, it, len(counts[it["name"]]), beside=it is not main))
    links[0] = replace(links[0], runs=len(tried), seconds=round(trials.seconds - started, 1))
    if not op or "setting" in main:
        return links, []
    found, missing = _op(trials, backend, main["name"], counts[main["name"]], ui)
    links[1:1] = found
    for it in gone:
        if it is not main and "setting" not in it:
            extra, _ = _op(trials, backend, it["name"], counts[it["name"]], ui)
            links += [replace(link, beside=True) for link in extra]
    return links, missing


def _of(trial: Trial, backend: str, subsystem: str) -> list[Applied]:
    return [it for it in trial.applied if (it.backend, it.subsystem) == (backend, subsystem)]


def _off(backend: str, it: dict[str, Any]) -> Change:
    if "setting" in it:
        return Change(config={it["setting"]: it["value"]})
    return _until(backend, it["name"], _OFF)


def _until(backend: str, subsystem: str, last: int) -> Change:
    return Change(switch={"backend": backend, "subsystem": subsystem, "last": last})


def _subsystem_link(trials: Trials, backend: str, it: dict[str, Any], count: int, *, beside: bool) -> Link:
    change = _off(backend, it)
    if "setting" in it:
        name = f"{it['setting']}={it['value']!r}"
        return Link("subsystem", name, f"It is gone with {name}.", good=trials.side(name, change), beside=beside)
    what = f"all {count} {it['name']} off"
    claim = f"It is gone with {it['name']} off ({count} of them ran)."
    bad = trials.side("all on", _until(backend, it["name"], count))
    return Link("subsystem", it["name"], claim, good=trials.side(what, change), bad=bad, beside=beside)


def _op(
    trials: Trials, backend: str, subsystem: str, applied: Sequence[Applied], ui: Ui
) -> tuple[list[Link], list[Untried]]:
    """The first application with which it fails, those before it on and those after it off."""
    runs, seconds = trials.runs, trials.seconds

    def ask(points: Sequence[int]) -> list[bool | None]:
        ui.progress(f"narrowing: which of {len(applied)} {subsystem} ({', '.join(map(str, points))})")
        return [trial.fails for trial in trials.ask([_until(backend, subsystem, at) for at in points])]

    border = first_failing(_OFF, len(applied) - 1, ask, trials.jobs)
    name, claim = _named(subsystem, applied, border)
    if border.sharp:
        claim += _alone(trials, backend, subsystem, border.bad, applied)
    good = trials.side(_up_to(subsystem, border.good), _until(backend, subsystem, border.good))
    bad = trials.side(_up_to(subsystem, border.bad), _until(backend, subsystem, border.bad))
    link = Link("op", name, claim, good, bad, runs=trials.runs - runs, seconds=round(trials.seconds - seconds, 1))
    if border.sharp:
        return [link], []
    why = f"between #{border.good} and #{border.bad} of {subsystem} nothing told anything"
    return [link], [Untried("op", why)]


def _named(subsystem: str, applied: Sequence[Applied], border: Boundary) -> tuple[str, str]:
    last = applied[border.bad]
    name = f"#{border.bad} {last.name}".rstrip()
    where = f" ({last.line})" if last.line else ""
    if border.sharp:
        return name, f"It begins with application {name} of {len(applied)} {subsystem}{where}."
    first = border.good + 1
    return f"#{first}-{name[1:]}", f"It begins with one of applications #{first} to {name} of {subsystem}{where}."


def _up_to(subsystem: str, last: int) -> str:
    return f"{subsystem} up to #{last} on, the rest off" if last >= 0 else f"all {subsystem} off"


def _alone(trials: Trials, backend: str, subsystem: str, number: int, applied: Sequence[Applied]) -> str:
    """What is known of that application without the others, and of the others without it."""
    switch = {"backend": backend, "subsystem": subsystem}
    without, only = trials.ask(
        [Change(switch={**switch, "without": [number]}), Change(switch={**switch, "only": [number]})]
    )
    words = f" With #{number} alone off it {_words(without)}"
    if only.fails:
        return f"{words}; with #{number} alone on it fails as observed."
    words += f"; with #{number} alone on it {_words(only)}"
    if only.fails is None or number > _WHOLE * 8:
        return f"{words}."
    return f"{words}{_together(trials, switch, number, applied)}."


def _together(trials: Trials, switch: dict[str, Any], number: int, applied: Sequence[Applied]) -> str:
    """Which others it needs, where it does not fail alone."""

    def ask(sets: Sequence[Sequence[int]]) -> list[bool | None]:
        changes = [Change(switch={**switch, "only": [*kept, number]}) for kept in sets]
        return [trial.fails for trial in trials.ask(changes)]

    if ask([list(range(number))])[0] is not True:
        return ""
    others, sure = needed(list(range(number)), ask, trials.jobs, _WHOLE)
    if not others:
        return ""
    named = ", ".join(f"#{at} {applied[at].name}".rstrip() for at in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    return f": it needs {'' if sure else 'no more than '}{named}{more} beside it"


def _words(trial: Trial) -> str:
    return "fails with " + trial.outcome if trial.fails is None else trial.outcome
