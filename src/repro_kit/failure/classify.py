"""Turn observations into failures and verdicts: the kind of an exception, a signal, a time-out or a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from repro_kit.failure import tracebacks
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame, Phase, Status, Verdict
from repro_kit.failure.frames import is_compiler, is_compiling, is_generated, torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import is_late, op_in, stated_tolerance
from repro_kit.failure.missing import missing_resource
from repro_kit.failure.tracebacks import short
from repro_kit.probe.repro_probe.protocol.queries import Reply
from repro_kit.serialize import from_data

_OOM = re.compile(
    r"\bout of memory\b|not enough memory|can't allocate memory|std::bad_alloc|cannot allocate memory|^MemoryError",
    re.IGNORECASE,
)
_OOM_TYPES = ("OutOfMemoryError", "MemoryError")
#: By full name, or by the bare name that torch's metrics and messages print.
_BACKEND_TYPES = re.compile(
    r"^torch\._inductor\.|^triton\.|^torch\._functorch\.|^torch\._export\."
    r"|(?:^|\.)(?:BackendCompilerFailed|InductorError|LoweringException|CppCompileError|CUDACompileError)$"
)
_DYNAMO_TYPES = re.compile(
    r"^torch\._dynamo\.|(?:^|\.)(?:ConstraintViolationError|GuardOnDataDependentSymNode|PendingUnbackedSymbolNotFound"
    r"|Unsupported|InternalTorchDynamoError|TorchRuntimeError|FailOnRecompileLimitHit|RecompileError"
    r"|UncapturedHigherOrderOpError)$"
)
#: The name of a warning's class, of Python or of torch.
_WARNING_TYPES = re.compile(r"\w*Warning$")
_COMPARISON = re.compile(
    r"not close|not equal|mismatch|differ|allclose|not match|wrong|incorrect|diverge|Not equal to tolerance|\bnan\b",
    re.IGNORECASE,
)


def classify_reply(reply: Reply) -> Verdict:
    """The verdict in a reply of the zygote (docs/explanation/zygote.md)."""
    status = Status(reply.get("status", "infra"))
    seconds = float(reply.get("seconds") or 0.0)
    text = str(reply.get("text") or "")
    if status in (Status.PASS, Status.FLAKY):
        return Verdict(status, seconds=seconds, rounding=bool(reply.get("rounding")))
    failure = _failure_of_reply(reply, text)
    if failure is None:
        note = text.strip().rsplit("\n", 1)[-1] or "the run reported nothing"
        return Verdict(Status.CANNOT_TELL, seconds=seconds, note=note)
    if lacking := missing_resource(failure):
        return Verdict(Status.CANNOT_TELL, failure, seconds, note=f"this machine lacks {lacking}")
    wrong, right = tuple(reply.get("wrong") or ()), tuple(reply.get("right") or ())
    note = text if status is Status.CANNOT_TELL else ""
    return Verdict(status, failure, seconds, note=note, wrong=wrong, right=right)


def _failure_of_reply(reply: Reply, text: str) -> Failure | None:
    reached = reply.get("phase")
    phase = Phase(reached) if reached else None
    stack = from_data(reply.get("stack") or [], tuple[Frame, ...])
    if reply.get("timed_out"):
        if reply.get("stuck"):
            return Failure(Kind.DEADLOCK, phase, stack=stack)
        return failure_from_timeout(stack, phase=phase, text=text)
    if reply.get("signal"):
        return failure_from_signal(str(reply["signal"]), text=text, stack=stack, phase=phase)
    if reply.get("difference"):
        difference = from_data(reply["difference"], Difference)
        stated = reply.get("tolerance")
        tolerance = from_data(stated, tuple[float, float]) if stated else None
        also = from_data(reply.get("also") or [], tuple[Difference, ...])
        return Failure(
            Kind.ACCURACY,
            phase or Phase.COMPARE,
            difference=difference,
            also=also,
            tolerance=tolerance,
            rounding=bool(reply.get("rounding")),
            doubts=_doubts(reply),
        )
    if reply.get("growth"):
        return Failure(Kind.COMPILE_GROWTH, Phase.COMPILE, text=str(reply["growth"]))
    if reply.get("exceptions"):
        links = from_data(reply["exceptions"], tuple[ExceptionLink, ...])
        failure = failure_from_exceptions(links, phase=phase, text=text)
        if reply.get("validation"):
            return lost_validation(links)
        return replace(failure, origins=tuple(map(str, reply.get("origins") or ())), doubts=_doubts(reply))
    return None


def _doubts(reply: Reply) -> tuple[str, ...] | None:
    return tuple(map(str, reply["doubts"])) if "doubts" in reply else None


def failure_from_exceptions(links: Sequence[ExceptionLink], *, phase: Phase | None = None, text: str = "") -> Failure:
    """The failure behind a chain of exceptions (outermost first).

    Kind `ACCURACY` is preliminary: the user's own check failed. The compiler is to blame only if the same command
    succeeds under ``TORCH_COMPILE_DISABLE=1``.
    """
    chain = tracebacks.unwrap(links)
    kind = _kind(chain)
    difference = tracebacks.difference_in(chain[-1].message) if kind is Kind.ACCURACY and chain else None
    op = next(filter(None, (op_in(link.message) for link in reversed(chain))), None)
    return Failure(
        kind,
        phase,
        exceptions=chain,
        text=text,
        difference=difference,
        tolerance=stated_tolerance(chain[-1]) if chain else None,
        op=op,
    )


def lost_validation(links: Sequence[ExceptionLink]) -> Failure:
    """The failure of a program that raises the exceptions `links` in eager, and none when it is compiled."""
    return Failure(Kind.VALIDATION, Phase.COMPARE, exceptions=tuple(links))


def failure_from_signal(
    signal: str, *, text: str = "", stack: Sequence[Frame] = (), phase: Phase | None = None, step: str | None = None
) -> Failure:
    """The failure of a run that a signal (``"SIGSEGV"``) ended.

    `text` is the end of stderr. Without a `stack`, the stack that faulthandler printed in `text` is used. A SIGKILL
    that repro-kit did not send comes from the kernel's out-of-memory killer, and counts as `OOM`.
    """
    killed = signal == "SIGKILL" or bool(_OOM.search(text[-4000:]))
    return Failure(
        Kind.OOM if killed else Kind.CRASH,
        phase,
        signal=signal,
        text=text,
        stack=tuple(stack) or tracebacks.faulthandler_stack(text),
        op=op_in(text[-4000:]),
        step=step,
    )


def failure_from_timeout(
    stack: Sequence[Frame] = (), step: str | None = None, *, phase: Phase | None = None, text: str = ""
) -> Failure:
    """The failure of a run that exceeded its time limit. `stack`: the Python stack at that moment, outermost first."""
    return Failure(Kind.TIMEOUT, phase, text=text, stack=tuple(stack) or tracebacks.faulthandler_stack(text), step=step)


def failure_from_text(text: str) -> Failure | None:
    """The last failure in `text` (stderr, pytest's output, or a `dynamo_error` payload of a trace); None without one.

    A failure of the compiler is preferred: launchers print a traceback of their own after it.
    """
    failures = failures_from_text(text)
    of_compiler = [failure for failure in failures if concerns_compiler(failure)]
    chosen = of_compiler or failures
    return chosen[-1] if chosen else None


def failures_from_text(text: str) -> list[Failure]:
    """Every failure in `text`, in order."""
    failures = [failure_from_exceptions(chain, text="") for chain in tracebacks.chains(text)]
    signal = tracebacks.signal_in(text)
    if signal:
        failures.append(failure_from_signal(signal, text=text[-8000:], stack=tracebacks.faulthandler_stack(text)))
    return failures


def concerns_compiler(failure: Failure) -> bool:
    """Whether any part of torch's compiler appears in the failure; in a plain bug of the user, none does."""
    if failure.compile_id or failure.step or failure.kind.policy.in_compiler:
        return True
    frames = [frame for link in failure.exceptions for frame in link.frames] + list(failure.stack)
    return any(is_compiler(frame) for frame in frames) or any(
        _BACKEND_TYPES.search(link.type) or _DYNAMO_TYPES.search(link.type) for link in failure.exceptions
    )


def is_compilers_type(name: str) -> bool:
    """Whether an exception type is the compiler's: a name of torch or triton, or the bare name that a log prints."""
    own = "." not in name or name.startswith(("torch.", "triton."))
    return own and bool(_BACKEND_TYPES.search(name) or _DYNAMO_TYPES.search(name))


def _kind(chain: Sequence[ExceptionLink]) -> Kind:
    if not chain:
        return Kind.RUNTIME_ERROR
    if any(_is_oom(link) for link in chain):
        return Kind.OOM
    if is_late(chain):
        return Kind.RUNTIME_ERROR
    if _WARNING_TYPES.fullmatch(short(chain[-1].type)):
        return Kind.WARNING
    if any(_BACKEND_TYPES.search(link.type) for link in chain):
        return Kind.COMPILE_ERROR
    if any(_DYNAMO_TYPES.search(link.type) for link in chain):
        return Kind.DYNAMO_ERROR
    compiling = [frame for link in chain for frame in link.frames if is_compiling(frame)]
    if compiling:
        in_dynamo = "/_dynamo/" in compiling[-1].file.replace("\\", "/")
        return Kind.DYNAMO_ERROR if in_dynamo else Kind.COMPILE_ERROR
    return Kind.ACCURACY if _is_comparison(chain[-1]) else Kind.RUNTIME_ERROR


def _is_oom(link: ExceptionLink) -> bool:
    return short(link.type) in _OOM_TYPES or bool(_OOM.search(link.message))


def _is_comparison(root: ExceptionLink) -> bool:
    """Whether the user's own check of a result failed: an assertion, or an error raised over a difference."""
    if not root.frames:
        return short(root.type) == "AssertionError"
    innermost = root.frames[-1]
    path = torch_path(innermost.file)
    if is_generated(innermost) or (path and not path.startswith("torch/testing/")):
        return False
    if short(root.type) in ("AssertionError", "Failed"):
        return True
    raised = not innermost.code or innermost.code.startswith(("raise", "assert", "sys.exit", "exit"))
    return raised and bool(_COMPARISON.search(root.message))
