"""How the work on an exported program ends that was moved to the CPU, where no failure of the compiler shows there."""

from __future__ import annotations

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.errors import Exit
from repro_kit.model.failure.moved_to_cpu import gpu_only
from repro_kit.session.stop import Stop


def not_on_cpu(case: Case, ended: Stop) -> Stop:
    """`ended`, or "GPU only" where it says of the program on the CPU that the compiler is not to blame."""
    match ended.exit_code:
        case Exit.NOTHING_FAILED:
            seen = "it passes"
        case Exit.ROUNDING:
            seen = "its results differ from eager's by rounding alone"
        case Exit.USER_BUG:
            seen = f"it does not {_alone(case)}"
        case _:
            return ended
    runs = ended.exit_code is not Exit.USER_BUG
    return Stop(Exit.CANNOT_RUN, gpu_only(case.file.moved_from, seen, None, runs=runs))


def _alone(case: Case) -> str:
    """What the program does not do in eager."""
    chosen = case.load(OBSERVATION).failures[case.file.failure_index]
    if chosen.failure.kind.policy.hangs:
        return "end in time, not even without torch.compile (--timeout gives it longer)"
    return f"run, not even without torch.compile ({chosen.signature.summary()})"
