"""`check.py`: how it is written, and how its output, or that of an older `repro.py`, is read."""

from __future__ import annotations

import re

from repro_kit.artefact import recipe_code
from repro_kit.artefact.plain import PlainScript
from repro_kit.artefact.recipe_code import is_entry
from repro_kit.bundle.facts import Facts, telling_line
from repro_kit.bundle.pages.templates import render
from repro_kit.failure import tracebacks
from repro_kit.failure.classify import (
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
    lost_validation,
)
from repro_kit.failure.failure import ExceptionLink, Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.missing import missing_resource
from repro_kit.recipe import Recipe

_LONGEST = 160  # characters of the message to search for
#: A token of the redactor, with the rest of its path.
_TOKEN = r"REDACTED_[A-Z]+_\d+|<[a-z]+(?:-\d+)?>(?:/[\w.@+~-]+)*"
_PYTHON_FILE = r"[\w.@+~/-]*[\w-]\.py\b"  # messages name a script as the command does, without its directory
_VARIABLE = re.compile(
    rf"{_TOKEN}|{_PYTHON_FILE}|0x[0-9a-fA-F]+|(?:/[\w.@+~-]+){{2,}}|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\bnan\b|\binf\b"
)
#: What a script says that ends by ``SystemExit``, or by ``os._exit``: whatever it is, no traceback.
_NO_TRACEBACK = r"\A(?![\s\S]*Traceback \(most recent call last\))"
_FATAL = r"Fatal Python error|malloc\(\)|free\(\)|corrupted|terminate called|died with <Signals|Signal \d+"


def pattern(facts: Facts) -> str:
    """A regular expression for the failure in the run's output: exception type and message, with any numbers."""
    failure, signature = facts.failure, facts.signature
    if signature.kind is Kind.CRASH:
        return _FATAL
    if silent(facts):
        return _NO_TRACEBACK
    if failure is None or not failure.exceptions:
        return re.escape(signature.exceptions[-1]) if signature.exceptions else r"Traceback"
    root = failure.exceptions[-1]
    name = re.escape(root.type.rsplit(".", 1)[-1])
    line = telling_line(root.message)[:_LONGEST]
    if line.startswith("error: "):
        return _open(line)  # a native compiler's error, far below the exception's name
    return rf"{name}\b.{{0,3}}{_open(line)}" if line else rf"\b{name}\b"


def silent(facts: Facts) -> int:
    """The exit status of a failure that is nothing but a status; 0 for any other. A killed run has another status."""
    failure = facts.failure
    if failure is None or failure.exceptions or facts.signature.exceptions or facts.signature.kind is Kind.CRASH:
        return 0
    return failure.exit_status or 0


def _open(text: str) -> str:
    """`text` as a regular expression that allows other addresses, paths and numbers."""
    pieces, at = [], 0
    for variable in _VARIABLE.finditer(text):
        pieces += [re.escape(text[at : variable.start()]), _opened(variable[0])]
        at = variable.end()
    return "".join([*pieces, re.escape(text[at:])]).replace(r"\ ", " ")


def _opened(text: str) -> str:
    if text.startswith("REDACTED_"):
        return r".+?"  # a secret may have spaces
    return r"\S+?" if text.startswith(("/", "<")) or text.endswith(".py") else r"\S+"


def raw(text: str) -> str:
    """A raw string literal if possible, else an ordinary one."""
    return f'r"{text}"' if '"' not in text and "\n" not in text and not text.endswith("\\") else repr(text)


#: Seconds after which a hanging child counts as hanging; a small program compiles in a few seconds.
HANG = 30
WAITING = 60  # the same for ranks that wait for each other: each of them starts torch
LIMIT = 300  # the same for a child that should crash: a busy machine is slow

#: The end of a traceback of `assert_close`: a compiler's own AssertionError is another failure.
_DIFFERS = r"\bin assert_close\n(?: .*\n)*AssertionError: "


def program_check(script: PlainScript, recipe: Recipe, facts: Facts) -> str:
    """The text of `check.py` for a plain script."""
    kind, raised = facts.signature.kind, facts.failure.exceptions if facts.failure else ()
    words = f"{raised[-1].type}: {raised[-1].message}" if raised else "an exception"
    lost = recipe_code.literal(f"FAIL validation: the compiled graph returns, eager raises {words}")
    return render(
        "check.py.j2",
        expected=raw(_DIFFERS if kind is Kind.ACCURACY else pattern(facts)),
        eager_line=script.eager_line,
        compiled_line=script.compiled_line,
        limit=HANG if kind.policy.hangs else LIMIT,
        eager="before" if is_entry(recipe) else "forced" if recipe.fullgraph else "",
        hangs=kind.policy.hangs,
        crashes=kind is Kind.CRASH,
        accuracy=kind is Kind.ACCURACY,
        validation=lost if kind.policy.eager_raises else "",
    )


#: Lines that a `repro.py` ends with (docs/reference/bundle-format.md).
_ACCURACY = re.compile(r"^FAIL accuracy: (?P<message>.*)", re.MULTILINE | re.DOTALL)
_VALIDATION = re.compile(
    r"^FAIL validation: the compiled graph returns, eager raises (?P<type>[\w.]+)(?:: (?P<message>.*))?", re.M | re.S
)
_CRASH = re.compile(r"^FAIL crash: (?P<signal>.+)$", re.MULTILINE)
_TIMEOUT = re.compile(r"^FAIL timeout: ", re.MULTILINE)
_WAITS = re.compile(r"^FAIL timeout: (?P<words>the ranks wait for each other: .+)$", re.MULTILINE)
_MEASURED = re.compile(
    rf"^FAIL (?P<kind>{'|'.join(kind for kind in Kind if kind.policy.shown_by is ShownBy.VALUE)}): (?P<words>.+)$",
    re.MULTILINE,
)
_ABOVE = re.compile(r"^FAIL: the failure above is the expected one\n?", re.MULTILINE)
_EXPECTED = re.compile(r"^FAIL: ", re.MULTILINE)  # of a script, which may end with a status and no traceback
_LOG = re.compile(r"^(?:\[rank\d+\]:)?\[?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ", re.M)  # written by torch, also at the end
_OTHERWISE = re.compile(r"^FAILS OTHERWISE: ", re.MULTILINE)
_CANNOT = re.compile(r"^CANNOT RUN: (?P<reason>.+)$", re.MULTILINE)

CANNOT_RUN = 125  # exit status


def read_run(exit_status: int | None, output: str, how: str, seconds: float = 0.0) -> Verdict:
    """The verdict on one run: `output` is its stdout and stderr together; `how` says how it ended, in words.

    The note says why a run fails without a failure, cannot be made, or does not end as it should.
    """
    match exit_status:
        case 0:
            return Verdict(Status.PASS, seconds=seconds)
        case 1:
            return _failing(output, seconds)
        case 125 if _OTHERWISE.search(output):
            return _failing(output, seconds)
        case 125:
            cannot_run = _CANNOT.search(output)
            how = cannot_run["reason"] if cannot_run else "it gives no reason"
    return Verdict(Status.CANNOT_TELL, failure_from_text(output), seconds, how)


def _failing(output: str, seconds: float) -> Verdict:
    """The verdict on a run that failed, as expected or otherwise: signatures tell, not the words of `check.py`."""
    failure = failure_in(output)
    if failure is not None and (lacking := missing_resource(failure)):
        return Verdict(Status.CANNOT_TELL, failure, seconds, f"this machine lacks {lacking}")
    return Verdict(Status.FAIL, failure, seconds, "" if failure else "it fails without giving a reason")


def failure_in(output: str) -> Failure | None:
    """The failure in the `output` of a failing `repro.py`."""
    crash = _CRASH.search(output)
    if crash:
        name = crash["signal"] if crash["signal"].startswith("SIG") else tracebacks.signal_in(output) or "SIGABRT"
        return failure_from_signal(name, text=output[: crash.start()])
    if _TIMEOUT.search(output):
        waits, stack = _WAITS.search(output), tracebacks.faulthandler_stack(output)
        if waits:
            return Failure(Kind.DEADLOCK, text=waits["words"], stack=stack)
        return failure_from_timeout(stack, text=output)
    measured = _MEASURED.search(output)
    if measured:
        return Failure(Kind(measured["kind"]), text=measured["words"])
    validation = _VALIDATION.search(output)
    if validation:
        return lost_validation([ExceptionLink(validation["type"], _before_log(validation["message"]))])
    accuracy = _ACCURACY.search(output)
    if accuracy:
        message = _before_log(accuracy["message"])
        return Failure(Kind.ACCURACY, Phase.COMPARE, text=message, difference=tracebacks.difference_in(message))
    silent = Failure(Kind.RUNTIME_ERROR, exit_status=1, text=output) if _EXPECTED.search(output) else None
    return failure_from_text(_ABOVE.sub("", output)) or silent  # a message of several lines ends where the output does


def of_repro(output: str) -> str:
    """What `repro.py` printed, of the `output` of a `check.py`: without a verdict that says nothing more."""
    output = _ABOVE.sub("", output)
    accuracy = _ACCURACY.search(output)
    repeats = accuracy is not None and accuracy["message"].partition("\n")[0] in output[: accuracy.start()]
    return output[: accuracy.start()] if accuracy is not None and repeats else output


def _before_log(message: str | None) -> str:
    """`message` up to what torch logs after it, as the process ends."""
    return _LOG.split(message or "", maxsplit=1)[0]
