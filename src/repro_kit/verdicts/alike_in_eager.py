"""Whether what a program raises in eager is what it raises when it is compiled."""

from __future__ import annotations

import re

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.failure.failure import ExceptionLink
from repro_kit.failure.frames import torch_path
from repro_kit.failure.signature import Strength
from repro_kit.failure.tracebacks import short
from repro_kit.verdicts import by_rounding

#: How Dynamo tells that the user's code raises with fake tensors, and the lines in its message. (An operator that is
#: not implemented is a graph break: `run_node` in torch/_dynamo/utils.py.)
_WITH_FAKE_TENSORS = "TorchRuntimeError"
#: A graph break's exception: one that fake tensors raise, or one of the code that Dynamo traces.
_BREAKS_WITH_FAKE_TENSORS = re.compile(r"with fake tensors: .*?: got (\w+)\(", re.DOTALL)
_BREAKS_BY_RAISING = re.compile(r"\braised exception (?:\w+\.)*(\w+)\((.*)\)")
_OF_FAKE_TENSORS = "torch/_subclasses/"
_TRACED = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)


def is_alike(in_eager: ObservedFailure, chosen: ObservedFailure) -> bool:
    """Whether a failure in eager is the chosen one: compiled code may say more, and Dynamo raises in other words."""
    same = in_eager.signature.matches(chosen.signature, Strength.REBASED)
    return same or _says_where(in_eager, chosen) or _same_line(in_eager, chosen)


def _says_where(in_eager: ObservedFailure, chosen: ObservedFailure) -> bool:
    """Whether the exceptions differ only in the place of generated code that stands before the words.

    `AOTI_TORCH_CHECK` of torch/csrc/inductor/aoti_torch/c/shim.h puts it there.
    """
    eager, compiled = (each.failure.exceptions[-1:] for each in (in_eager, chosen))
    if not (eager and compiled and eager[0].message and eager[0].type == compiled[0].type):
        return False
    return re.fullmatch(rf"\w+, .+:\d+, {re.escape(eager[0].message)}", compiled[0].message) is not None


def _same_line(in_eager: ObservedFailure, chosen: ObservedFailure) -> bool:
    """Whether the line of the user's that raises in eager raised under Dynamo, or with fake tensors.

    An exception of Dynamo's own has the lines that it was tracing in its message, and not in its traceback. Any other
    exception must come from fake tensors: a line of the script's own may raise for several reasons.
    """
    file, line, _ = raised = by_rounding.raised_at(in_eager)
    if not file:
        return False
    of_dynamo = [it for it in chosen.failure.exceptions if _tells_of_the_error(it, in_eager)]
    if not of_dynamo:
        frames = [frame for link in chosen.failure.exceptions for frame in link.frames]
        is_fake = any((torch_path(frame.file) or "").startswith(_OF_FAKE_TENSORS) for frame in frames)
        return is_fake and raised == by_rounding.raised_at(chosen)
    traced = [place for place in _TRACED.findall(of_dynamo[-1].message) if torch_path(place[0]) is None]
    return traced[-1:] == [(file, str(line))]


def _tells_of_the_error(link: ExceptionLink, in_eager: ObservedFailure) -> bool:
    """Whether Dynamo tells that the traced code raises; a graph break must name the exception that eager raises."""
    if short(link.type) == _WITH_FAKE_TENSORS:
        return True
    if short(link.type) != "Unsupported" or not in_eager.failure.exceptions:
        return False
    raised = in_eager.failure.exceptions[-1]
    with_fake, by_code = _BREAKS_WITH_FAKE_TENSORS.search(link.message), _BREAKS_BY_RAISING.search(link.message)
    if with_fake is not None:
        return with_fake[1] == short(raised.type)
    said = raised.message.partition("\n")[0]  # a line of the script's own may raise for several reasons
    return by_code is not None and by_code[1] == short(raised.type) and said in by_code[2]
