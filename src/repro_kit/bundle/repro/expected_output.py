"""The pattern by which `check.py` knows the failure in a run's output, without repro-kit."""

from __future__ import annotations

import re

from repro_kit.bundle.facts import Facts, telling_line
from repro_kit.model.failure.failure import Kind

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
