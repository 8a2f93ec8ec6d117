"""Symptoms: what is wrong with a run that raises nothing, stated as a limit on a measurement.

``accuracy``, ``validation``, or ``MEASURE>LIMIT[UNIT][@BASELINE]``: ``recompiles>3``, ``graph-breaks>0``,
``compile-time>30s``, ``slowdown>1.2``, ``memory>1.5x``, ``memory>2GiB``. A ratio (``x``) is relative to eager, or to
the cell after ``@``, which a backend or settings name: ``compile-time>2x@aot_eager``, ``slowdown>1.1@dynamic=False``.
``compile-growth>2``: compile time grows faster than the square of the number of times that a graph is repeated.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import Any

from repro_kit.errors import UsageError
from repro_kit.failure.failure import Failure, Measured, Status, Verdict
from repro_kit.failure.kinds import SYMPTOM_FORMS, Kind, Unit

_SUFFIXES = {
    "": None,
    "x": (Unit.RATIO, 1),
    "s": (Unit.SECONDS, 1),
    "min": (Unit.SECONDS, 60),
    **{f"{letter}B": (Unit.BYTES, 1000**power) for power, letter in enumerate(("", "k", "M", "G", "T"))},
    **{f"{letter}iB": (Unit.BYTES, 1024**power) for power, letter in enumerate(("", "K", "M", "G", "T")) if letter},
}
_FORM = re.compile(r"(?P<measure>[a-z-]+)\s*>\s*(?P<limit>\d+(?:\.\d+)?)\s*(?P<suffix>[A-Za-z]*)(?:@(?P<baseline>.+))?")
_SETTING = re.compile(r"(?P<name>[A-Za-z_][\w.]*)=(?P<value>.+)")


@dataclass(frozen=True)
class Symptom:
    """A measure and the limit above which it is a failure.

    `baseline`: the settings of the cell that a ratio is relative to; empty for eager. `reference`: its measured value.
    """

    kind: Kind
    limit: float = 0.0
    unit: Unit = Unit.COUNT
    baseline: dict[str, Any] = field(default_factory=dict)
    reference: float | None = None
    text: str = ""  # as the user wrote it; for an oracle, its command
    pattern: str = ""  # the oracle's output must contain this for the failure to count as the same
    rounding: bool = False  # a difference that eager's own rounding explains counts too
    of_state: bool = False  # for accuracy: the results agree, and the Python state that a call leaves does not

    @property
    def threshold(self) -> float:
        """The limit in the unit of the measurement: multiplied by the baseline's value if there is one."""
        return self.limit if self.reference is None else self.limit * self.reference

    @property
    def timed(self) -> bool:
        """Whether the symptom is about time, so that nothing else may run during a measurement."""
        return self.kind in (Kind.SLOWDOWN, Kind.COMPILE_TIME)

    def with_reference(self, value: float) -> Symptom:
        """The symptom, once its baseline has been measured."""
        return replace(self, reference=value)

    def verdict(self, measured: Measured, seconds: float = 0.0) -> Verdict:
        """The verdict on a measurement: fails above the limit and its noise, flaky if the limit is in the noise."""
        measured = replace(measured, limit=self.threshold)
        shown_value = shown(self.kind, self.unit, measured.value) + _noise(self.unit, measured)
        brief = self._brief(measured.value)
        if measured.low > self.threshold:
            detail = f": {measured.detail}" if measured.detail else ""
            words = f"{shown_value}, more than {self._brief(self.threshold)}{detail}"
            failure = Failure(self.kind, text=words, measured=measured)
            return Verdict(Status.FAIL, failure, seconds, note=shown_value, measured=brief)
        if measured.value > self.threshold or measured.high > self.threshold:
            note = f"{shown_value}, too near the limit to tell"
            return Verdict(Status.FLAKY, seconds=seconds, note=note, measured=brief)
        return Verdict(Status.PASS, seconds=seconds, note=shown_value, measured=brief)

    def _brief(self, value: float) -> str:
        match self.unit:
            case Unit.BYTES:
                return _bytes(value)
            case _ if self.kind is Kind.COMPILE_TIME:
                return f"{value:.3g} s"
        return f"{value:.3g}{'x' if self.kind.policy.in_eager else ''}"


def parse_symptom(text: str) -> Symptom:
    """The symptom that `text` names. Raises UsageError, whose message lists the valid forms."""
    for kind in Kind:
        if kind.policy.compared and text.strip() == kind:
            return Symptom(kind, text=text.strip())
    form = _FORM.fullmatch(text.strip())
    kinds = {str(kind): kind for kind in Kind if kind.policy.units}
    if form is None or form["measure"] not in kinds:
        raise UsageError(f"{text!r} is not a symptom; give one of {SYMPTOM_FORMS}.")
    kind = kinds[form["measure"]]
    unit, factor = _unit(text, kind, form["suffix"])
    baseline = _baseline(text, form["baseline"])
    if unit is Unit.RATIO and not baseline and not kind.policy.in_eager:
        raise UsageError(
            f"{text!r}: eager has no {kind.replace('-', ' ')} to compare with; "
            f"name another baseline, for example {text}@aot_eager, or give an absolute limit."
        )
    if baseline and unit is not Unit.RATIO:
        raise UsageError(f"{text!r}: a baseline needs a ratio, for example {kind}>2x@{form['baseline']}.")
    return Symptom(kind, float(form["limit"]) * factor, unit, baseline, text=text.strip())


def shown(kind: Kind, unit: Unit, value: float) -> str:
    """A value with its unit, for people: ``5 recompiles``, ``1.43x eager's time``, ``2.0 GiB``."""
    return _bytes(value) if unit is Unit.BYTES else kind.policy.reading.format(value=value, s="s" * (value != 1))


def _noise(unit: Unit, measured: Measured) -> str:
    if measured.low == measured.high:
        return ""
    if unit is Unit.BYTES:
        return f" [{_bytes(measured.low)} to {_bytes(measured.high)}]"
    return f" [{measured.low:.2f} to {measured.high:.2f}]"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.{0 if unit == 'B' else 1}f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _unit(text: str, kind: Kind, suffix: str) -> tuple[Unit, float]:
    unit_and_factor = _SUFFIXES.get(suffix) if suffix else (kind.policy.units[0], 1)
    if unit_and_factor is None or unit_and_factor[0] not in kind.policy.units:
        may = [name for name, entry in _SUFFIXES.items() if entry and entry[0] in kind.policy.units]
        raise UsageError(f"{text!r}: {kind} is not counted in {suffix!r}; use {' or '.join(may)}, or no unit.")
    return unit_and_factor[0], float(unit_and_factor[1])


def _baseline(text: str, words: str | None) -> dict[str, Any]:
    """The settings in ``aot_eager`` or ``dynamic=False,inductor.pattern_matcher=False``; empty for "eager" or None."""
    if not words or words == "eager":
        return {}
    settings: dict[str, Any] = {}
    for word in words.split(","):
        setting = _SETTING.fullmatch(word.strip())
        if setting is None:
            settings["backend"] = word.strip()
            continue
        name, value = setting["name"], _value(setting["value"])
        if name not in ("backend", "mode", "dynamic", "fullgraph") and "." not in name:
            raise UsageError(
                f"{text!r}: {name!r} is not a setting; use backend, mode, dynamic, fullgraph, or a setting of a config "
                "module such as inductor.pattern_matcher."
            )
        settings[name] = value
    return settings


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
