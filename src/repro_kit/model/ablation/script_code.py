"""Code of the script that the compiler, or what it compiled, calls: a kernel, a lowering, a graph pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.failure.failure import Failure, Frame
from repro_kit.model.failure.frames import is_compiling, is_generated, torch_path

#: The cause in an ablation whose sentence names such code.
SCRIPT_CODE = "script-code"
_OPERATOR = "a custom operator of the script"
_FUNCTION = "a function of the script that the compiler calls"
#: Files of torch that call a function of a script, and what that function is.
_CALLERS = tuple(
    (re.compile(rf"torch/(?:{pattern})"), what)
    for pattern, what in (
        (r"_library/|library\.py|_ops\.py", _OPERATOR),
        (r"_inductor/(?:graph|lowering)\.py", "a lowering that the script registers"),
        (r"_inductor/(?:fx_passes/|pattern_matcher\.py|fx_utils\.py)|fx/passes/", "a graph pass of the script"),
        (r"_inductor/scheduler\.py", "a scheduler pass of the script"),
        (
            r"_decomp/|fx/experimental/proxy_tensor\.py|_subclasses/f\w+_tensor\.py",
            "a decomposition that the script registers",
        ),
    )
)
#: A file that is installed, built into Python, or repro-kit's own: none of the user's.
_NOT_USERS = re.compile(r"^<|(?:site|dist)-packages/|/lib/python\d|/repro_probe/")


@dataclass(frozen=True)
class ScriptCode:
    """A function of the script that was running: what it is, its name, and the function of torch that it had called.

    `beyond` is empty where nothing of torch was running below the function.
    """

    what: str
    name: str
    beyond: str = ""

    @property
    def is_operator(self) -> bool:
        """Whether it is the kernel of a custom operator, which runs after the compile too."""
        return self.what == _OPERATOR

    @property
    def words(self) -> str:
        """``a custom operator of the script (peek)``."""
        return f"{self.what} ({self.name})"


def script_code(failure: Failure) -> ScriptCode | None:
    """The innermost function of the script that torch called, and that was running at the failure; None if none was."""
    stacks = [exception.frames for exception in reversed(failure.exceptions) if exception.frames]
    frames = next(iter(stacks), failure.stack)  # of the root cause, or of the exception that wraps the root cause
    users = [at for at, frame in enumerate(frames) if _is_users(frame)]
    for at in reversed(users):
        what = _called_as(frames[at - 1]) if at else ""
        if what:
            return ScriptCode(what, frames[at].function, _first_of_torch(frames[users[-1] + 1 :]))
    return None


def _is_users(frame: Frame) -> bool:
    file = frame.file.replace("\\", "/")
    return torch_path(file) is None and not is_generated(frame) and not _NOT_USERS.search(file)


def _called_as(caller: Frame) -> str:
    """What a function is that `caller` calls; "" if `caller` is not known to call code of a script."""
    path = torch_path(caller.file) or ""
    named = next((what for pattern, what in _CALLERS if pattern.match(path)), "")
    return named or (_FUNCTION if is_compiling(caller) else "")


def _first_of_torch(frames: Sequence[Frame]) -> str:
    """The outermost function of torch among `frames`, as ``sizevars.py:statically_known_equals``; "" for none."""
    inside = [(path, frame.function) for frame in frames if (path := torch_path(frame.file))]
    return f"{inside[0][0].rsplit('/', 1)[-1]}:{inside[0][1]}" if inside else ""
