"""Causes outside the layer: the program, its operators and passes, and artifacts of an earlier run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.contrasts import (
    AFRESH,
    NO_ARTIFACTS,
    WITHOUT_OPERATORS,
    mismatch_of,
)
from repro_kit.diagnosis.evidence import Chain
from repro_kit.diagnosis.layer import (
    EAGER_AT_TRUE,
    EAGER_KERNELS,
    FORGETFUL_EAGER,
    HELD_AT_FALSE,
    HELD_AT_TRUE,
    INTERRUPTIONS,
    MARKS,
    OF_THE_GRAPH,
    OVERWRITTEN,
    OWN_BRANCH,
    OWN_CHANGE,
    PROMISES,
    REBUILT_EAGER,
    REQUESTED_BREAK,
    REQUESTED_ERROR,
    TAKEN_OUT,
    WITHOUT_CHANGES,
    Diagnosis,
    gone_without,
    passes,
    taken_out,
)
from repro_kit.diagnosis.promises import OwnSettings, marks_in, promises_of
from repro_kit.failure.failure import Failure, Frame, Layer
from repro_kit.failure.frames import is_compiling, is_generated, torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import is_overwritten
from repro_kit.failure.tracebacks import short

#: The title and the explanation in torch's own words (torch/_dynamo/variables/functions.py).
_ASKED = re.compile(r"User-inserted graph break|Call to `torch\._dynamo\.graph_break\(\)`")
_TRACED_LINE = re.compile(r'^\s*File "(?P<file>.+)", line \d+', re.MULTILINE)


def asks_for_break(failure: Failure) -> bool:
    """Whether a line outside of torch calls ``torch._dynamo.graph_break()``, and no break is allowed.

    torch's own code calls it too (torch/optim/optimizer.py); a break there is torch's.
    """
    for link in failure.exceptions:
        if _ASKED.search(link.message):
            traced = [*_TRACED_LINE.finditer(link.message.partition("from user code:")[2])]
            return bool(traced) and torch_path(traced[-1]["file"]) is None
    return False


#: Torch's own words for what it will never trace, and for what it may (torch/_dynamo/graph_break_hints.py).
_FOR_EVER, _MAY_BE_A_BUG = "This graph break is fundamental", "report an issue"
#: How torch ends a recompile that a setting or a stance makes an error (torch/_dynamo/eval_frame.py, convert_frame.py).
_NO_RECOMPILES = re.compile(r"stance is 'fail_on_recompile'|due to fail_on_recompile_limit_hit")


def asks_for_no_recompile(failure: Failure) -> bool:
    """Whether `failure` is what torch raises at a recompile for who asks for that: never by default."""
    return any(
        short(link.type) == "RecompileError" or _NO_RECOMPILES.search(link.message) for link in failure.exceptions
    )


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
_OF_LIMITS = ("RecursionError", "MemoryError")
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


def may_be_interrupted(failure: Failure) -> bool:
    """Whether a limit of the process, or a function of the script that ran while something was compiled, raised.

    Python calls such a function wherever the process is: a hook, or the handler of a signal.
    """
    return any(
        short(link.type) in _OF_LIMITS
        or (bool(link.frames) and _is_users(link.frames[-1]) and any(map(is_compiling, link.frames)))
        for link in failure.exceptions
    )


def _called_as(caller: Frame) -> str:
    """What a function is that `caller` calls; "" if `caller` is not known to call code of a script."""
    path = torch_path(caller.file) or ""
    named = next((what for pattern, what in _CALLERS if pattern.match(path)), "")
    return named or (_FUNCTION if is_compiling(caller) else "")


def _first_of_torch(frames: Sequence[Frame]) -> str:
    """The outermost function of torch among `frames`, as ``sizevars.py:statically_known_equals``; "" for none."""
    inside = [(path, frame.function) for frame in frames if (path := torch_path(frame.file))]
    return f"{inside[0][0].rsplit('/', 1)[-1]}:{inside[0][1]}" if inside else ""


_CUSTOM_OPERATOR = "custom-operator"
_BY_INTENT = (
    "The script asks whether it is being compiled, and then does another thing: it passes with torch.compiler."
    "is_compiling() held at False, and with that held at True everywhere too, so the compiler is not to blame."
)
_IN_EAGER_TOO = (
    "The script asks whether it is being compiled, and then does another thing: it passes with torch.compiler."
    "is_compiling() held at False, and with that held at True it fails without torch.compile too, so the compiler is "
    "not to blame."
)
_OVERWRITTEN = (
    "The script reads an output of compiled code after a later call, in which a CUDA graph writes to the same memory: "
    "the compiler is not to blame. Clone the output, or call torch.compiler.cudagraph_mark_step_begin() before each "
    "call."
)
_ASKS_FOR_A_BREAK = (
    "The program asks for a graph break itself (torch._dynamo.graph_break()), and fullgraph=True refuses every break: "
    "the compiler is not to blame."
)


_ASKS_FOR_THE_IMPOSSIBLE = (
    "The program asks for one whole graph (fullgraph=True) of what torch says it will most likely never trace "
    '("This graph break is fundamental"): that is a limit of torch.compile, and no bug in it.'
)
_ASKS_FOR_NO_RECOMPILE = (
    "The program asks itself that a recompile be an error (set_stance('fail_on_recompile'), error_on_recompile or "
    "fail_on_recompile_limit_hit), and its arguments need one: the compiler is not to blame. `repro-kit explain` says "
    "what made it compile again."
)


@dataclass(frozen=True)
class Evidence:
    """What a rule looks at. `plain`: the layer that the ladder names, by the `failing` cell."""

    plain: Diagnosis
    failing: Cell
    contrasts: Mapping[str, Cell]
    own: OwnSettings = field(default_factory=OwnSettings)

    @property
    def failure(self) -> Failure | None:
        """The failure of the failing cell."""
        return self.failing.verdict.failure

    @property
    def called(self) -> ScriptCode | None:
        """The function of the script that torch had called, and that was running."""
        return script_code(self.failure) if self.failure is not None else None


Rule = Callable[[Evidence], Diagnosis | None]


def _reads_overwritten_output(evidence: Evidence) -> Diagnosis | None:
    links = evidence.failure.exceptions if evidence.failure else ()
    read = any(is_overwritten(link.message) for link in links)
    return Diagnosis(Layer.USER, OVERWRITTEN, _OVERWRITTEN) if read else None


def _fake_kernel_raises(evidence: Evidence) -> Diagnosis | None:
    failure = evidence.failure
    if failure is None or not _in_users_fake_kernel(failure):
        return None
    reason = f"The user's own fake kernel of {failure.op or 'a custom operator'} raises: the compiler is not to blame."
    return Diagnosis(Layer.USER, _CUSTOM_OPERATOR, reason)


def _asks_for_break(evidence: Evidence) -> Diagnosis | None:
    asked = evidence.failure is not None and asks_for_break(evidence.failure)
    return Diagnosis(Layer.USER, REQUESTED_BREAK, _ASKS_FOR_A_BREAK) if asked else None


def _asks_for_the_impossible(evidence: Evidence) -> Diagnosis | None:
    messages = [link.message for link in evidence.failure.exceptions] if evidence.failure is not None else []
    asked = any(_FOR_EVER in message and _MAY_BE_A_BUG not in message for message in messages)
    return Diagnosis(Layer.USER, REQUESTED_BREAK, _ASKS_FOR_THE_IMPOSSIBLE) if asked else None


def _asks_for_no_recompile(evidence: Evidence) -> Diagnosis | None:
    asked = evidence.failure is not None and asks_for_no_recompile(evidence.failure)
    return Diagnosis(Layer.USER, REQUESTED_ERROR, _ASKS_FOR_NO_RECOMPILE) if asked else None


def _script_code_was_running(evidence: Evidence) -> Diagnosis | None:
    failure, called = evidence.failure, evidence.called
    if failure is None or called is None or not _was_at_it(called, failure, evidence.failing):
        return None
    beyond = f" and had called {called.beyond} of torch" if called.beyond else ""
    who = f"{called.words[0].upper()}{called.words[1:]}"
    reason = f"{who} {failure.kind.policy.doing}{beyond}: {evidence.plain.evidence}."
    return Diagnosis(evidence.plain.layer, SCRIPT_CODE, reason)


def _operator_is_not_as_it_says(evidence: Evidence) -> Diagnosis | None:
    said, without = mismatch_of(evidence.contrasts), evidence.contrasts.get(WITHOUT_OPERATORS)
    if not said or (without is not None and without.same):
        return None
    gone = passes(evidence.contrasts, WITHOUT_OPERATORS)
    more = ", and the failure is gone with the operator in no graph" if gone else ""
    reason = f"The custom operator {said}{more}: the compiler is not to blame."
    return Diagnosis(Layer.USER, _CUSTOM_OPERATOR, reason)


def _loads_wrong_artifact(evidence: Evidence) -> Diagnosis | None:
    if not passes(evidence.contrasts, NO_ARTIFACTS):
        return None
    who = "A cache artifact that the script loads (torch.compiler.load_cache_artifacts)"
    why = "and passes if nothing is loaded and all is compiled anew"
    return replace(evidence.plain, cause="graph-cache", who=who, evidence=f"{evidence.plain.evidence}, {why}")


def _does_otherwise_when_compiled(evidence: Evidence) -> Diagnosis | None:
    if not passes(evidence.contrasts, HELD_AT_FALSE):
        return None
    if passes(evidence.contrasts, HELD_AT_TRUE):
        return Diagnosis(Layer.USER, OWN_BRANCH, _BY_INTENT)
    eager = evidence.contrasts.get(EAGER_AT_TRUE)
    return Diagnosis(Layer.USER, OWN_BRANCH, _IN_EAGER_TOO) if eager is not None and eager.same else None


def _passes_without_its_changes(evidence: Evidence) -> Diagnosis | None:
    if not passes(evidence.contrasts, WITHOUT_CHANGES):
        return None
    right = OF_THE_GRAPH if passes(evidence.contrasts, EAGER_KERNELS) else ()  # so is the graph that Inductor gets
    gone = gone_without(evidence.contrasts)
    alone = [kind for kind in gone if kind not in right]
    if (gone and not alone) or (alone == [PROMISES] and _is_wrong_at_once(evidence)):
        return None
    without = [f"without {taken_out(kind, _own(kind, evidence))}" for kind in alone]
    what = " or ".join(without) or "without what the program changes in torch"
    unless = ", unless it compiles wrongly what they return" if "lowerings" in alone else ""  # they write code alone
    reason = f"The failure is gone {what}: the compiler is not to blame{unless}."
    seen = f" With them, {evidence.plain.evidence}." if evidence.plain.evidence else ""  # none if no layer is named
    return Diagnosis(Layer.USER, OWN_CHANGE, reason + seen)


def _own(kind: str, evidence: Evidence) -> Sequence[str]:
    """What the program has of this kind, as it is written; empty where that is not known."""
    if kind == PROMISES and evidence.failure is not None:
        return promises_of(evidence.own, evidence.failure)
    return marks_in(evidence.own.texts) if kind == MARKS else ()


def _is_wrong_at_once(evidence: Evidence) -> bool:
    """Whether code that was compiled for the very call gives wrong values: what changes later has no part in it."""
    afresh, failure = evidence.contrasts.get(AFRESH), evidence.failure
    wrong = failure is not None and failure.kind is Kind.ACCURACY
    return wrong and afresh is not None and afresh.same


#: Contrasts that compile nothing, and what it means that the program fails there, too.
_FAILS_IN_EAGER_TOO = {
    FORGETFUL_EAGER: f"The program fails without torch.compile too, without {TAKEN_OUT['handlers']}: its result depends"
    " on which operators run, compiled code runs others, or fewer, and the compiler is not to blame.",
    REBUILT_EAGER: f"The program fails without torch.compile too, without {TAKEN_OUT['subclasses']}: compiled code "
    "takes such a tensor apart and rebuilds it, and the compiler is not to blame.",
}


def _is_interrupted(evidence: Evidence) -> Diagnosis | None:
    gone = passes(evidence.contrasts, f"{WITHOUT_CHANGES}: {INTERRUPTIONS}")
    return _passes_without_its_changes(evidence) if gone else None


def _depends_on_what_is_lost(evidence: Evidence) -> Diagnosis | None:
    for contrast, reason in _FAILS_IN_EAGER_TOO.items():
        if contrast in evidence.contrasts and evidence.contrasts[contrast].same:
            return Diagnosis(Layer.USER, OWN_CHANGE, reason)
    return None


RULES: tuple[Rule, ...] = (
    _reads_overwritten_output,
    _fake_kernel_raises,
    _asks_for_break,
    _asks_for_the_impossible,
    _asks_for_no_recompile,
    _is_interrupted,
    _script_code_was_running,
    _operator_is_not_as_it_says,
    _loads_wrong_artifact,
    _does_otherwise_when_compiled,
    _passes_without_its_changes,
    _depends_on_what_is_lost,
)


def _in_users_fake_kernel(failure: Failure) -> bool:
    """Whether the innermost frame is the user's and runs inside torch's caller of fake kernels."""
    for link in reversed(failure.exceptions):
        paths = [torch_path(frame.file) for frame in link.frames]
        called = [at for at, path in enumerate(paths) if path and path.startswith("torch/_library/fake_impl.py")]
        if called:
            return not any(paths[called[-1] + 1 :]) and called[-1] + 1 < len(paths)
    return False


def _was_at_it(called: ScriptCode, failure: Failure, cell: Cell) -> bool:
    """Whether the function of the script was running itself, and not what it had called in torch.

    An exception of an operator may be its answer to what the compiler gave it. A function that hangs calls torch in its
    loop; a program has that function only where the graph alone does not fail.
    """
    if failure.exceptions:
        return not called.beyond and not called.is_operator
    return not called.beyond or (failure.kind.policy.hangs and cell.subject == "program")


#: The cause in an ablation whose sentence names such a pass.
CUSTOM_PASS = "custom-pass"


def is_custom_pass(name: str) -> bool:
    """Whether `name` ends with a setting for the user's own passes in torch/_inductor/config.py."""
    return name.endswith("_pass") and "_custom_" in name


def of_users_pass(chain: Chain) -> Diagnosis | None:
    """The diagnosis that names the user's own pass; None if the chain leaves a doubt.

    Inductor may compile wrongly what a right pass returns. So the failure must be gone without that pass alone, and
    there without the other passes, and without the lowerings: eager's kernels then run what the pass returned.
    """
    subsystems = [link.culprit for link in chain.links if link.step == "subsystem"]
    found = {link.finding: link for link in chain.links}
    begins, alone = found.get("users-pass"), found.get("alone")
    if len(subsystems) != 1 or begins is None or "stays-without-lowerings" not in found:
        return None
    if alone is None or alone.good is None or alone.bad is None:
        return None
    sentence = (
        f"The failure is gone without the user's own pass ({begins.culprit.split()[-1]}), and stays without all other "
        f"{subsystems[0]}: the compiler is not to blame."
    )
    return Diagnosis(Layer.USER, CUSTOM_PASS, sentence)
