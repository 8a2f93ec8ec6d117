"""The last words on a failure that shows with nothing compiled as well."""

from __future__ import annotations

import re

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Failure, Frame
from repro_kit.model.failure.frames import torch_path
from repro_kit.model.failure.signature import in_words, signature_of
from repro_kit.session.stop import Stop
from repro_kit.session.verdicts import observed_failures

#: How `OptimizedModule` names what it wraps, whether or not it compiles (torch/_dynamo/eval_frame.py).
_WRAPPER = re.compile(r"\b_orig_mod\.\w")
_OF_WRAPPER = (
    "The program fails with compiling switched off too, so no compiled code is to blame. `_orig_mod` is what "
    "torch.compile(module) adds to the names of parameters, compiled or not: use the names of the module itself, or "
    "compile it in place, by module.compile()"
)
#: What Dynamo raises, and says of a higher-order operator. (Other functions of torch run Dynamo in eager as well.)
_DYNAMOS = re.compile(r"^torch\._dynamo\.exc\.")
_HIGHER_ORDER = re.compile(r"\bhigher.order op", re.IGNORECASE)
_OF_AN_OPERATOR = (
    "The program fails without torch.compile too. A higher-order operator (scan, map and the like) has Dynamo trace "
    "its function in eager as well, and Dynamo refuses that function: change it as the message says"
)


#: The call itself: what is compiled runs later.
_OF_THE_CALL = (
    "torch.compile(…) itself raises this, with compiling switched off too, so that no compiled code is to blame: look "
    "at its arguments, and at what the script sets before"
)


#: The line of the script for an exported program that loads it, and what that script says where it loads nothing
#: (commands/intake/exported_file.py). That torch cannot load a file says nothing of the program in it.
_LOADS = "exported = torch.export.load("
_LOADS_NOTHING = re.compile(r"^(?:Nothing was loaded: .+|The exported program holds no example inputs; .+)$", re.M)


def stop(chosen: ObservedFailure) -> Stop:
    """The end of the work, with the failure in words."""
    failure = chosen.failure
    if said := _not_loaded(failure):
        return Stop(Exit.CANNOT_RUN, f"The exported program cannot be run with this torch: {said}")
    words = "The program fails without torch.compile too, so the compiler is not to blame"
    if any(_WRAPPER.search(link.message) for link in failure.exceptions):
        words = _OF_WRAPPER
    elif any(_is_the_call(frame) for link in failure.exceptions for frame in link.frames):
        words = _OF_THE_CALL
    elif any(_DYNAMOS.match(link.type) and _HIGHER_ORDER.search(link.message) for link in failure.exceptions):
        words = _OF_AN_OPERATOR
    said = f"{words}: {in_words(chosen.signature, failure)}\n{observed_failures.excerpt(failure)}"
    return Stop(Exit.USER_BUG, said)


def _not_loaded(failure: Failure) -> str:
    """Why the script for an exported program did not come to the program; empty for any other failure."""
    if any(frame.code.startswith(_LOADS) for link in failure.exceptions for frame in link.frames):
        return in_words(signature_of(failure), failure)
    found = None if failure.exceptions else _LOADS_NOTHING.search(failure.text)
    return found[0] if found else ""


def _is_the_call(frame: Frame) -> bool:
    return frame.function == "compile" and torch_path(frame.file) == "torch/__init__.py"
