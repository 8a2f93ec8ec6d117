"""Load the program of one request in this process, and run it: in eager, compiled, or without a kernel."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from repro_probe.change import subsystems
from repro_probe.common.tracebacks import describe_exception, dump_now
from repro_probe.protocol.failure_data import LinkData
from repro_probe.protocol.findings import APPLIED
from repro_probe.protocol.queries import Query, QueryPhase, QueryReport, Until
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.run import process_group
from repro_probe.run.load_program import LoadedProgram, apply, load, seed

if TYPE_CHECKING:
    from repro_probe.run import outputs
    from repro_probe.run.outputs import Outcome  # this module imports torch


SHARE = 0.2  # of the time of a query that is left, in which eager must end
LEAST = 5.0  # seconds
#: The modes in which every rank of a real process group runs the program. The others need no right values.
_OF_ALL_RANKS = ("check", "eager", "diverge")


class Invalid(Exception):
    """The program fails without the compiler too. The failure is `__cause__`."""


class ReachedNative(BaseException):
    """Raised when the generated code goes to a native compiler. No `except Exception` may catch it."""


class QueryRun:
    """The run of one request, which reports each phase before the phase begins.

    `threads` is the machine's default number of threads, for a process that has changed its own number.
    `answers(rank)` is called in the process of another rank; it returns whether the program passes there.
    """

    def __init__(
        self,
        request: Query,
        tell: Callable[[QueryReport], None],
        threads: int | None,
        answers: Callable[[int], bool],
    ) -> None:
        self.request = request
        self.phase: QueryPhase | None = None
        self._tell, self._threads, self._answers = tell, threads, answers

    def step(self, phase: QueryPhase) -> None:
        """Report a phase."""
        if phase != self.phase:
            self.phase = phase
            self._tell({"phase": phase})

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Report no phases in the block."""
        tell, phase, self._tell = self._tell, self.phase, lambda report: None
        try:
            yield
        finally:
            self._tell, self.phase = tell, phase

    def _stuck(self) -> None:
        """Report that the query will never end, after writing the stack that shows where it waits."""
        dump_now()
        self._tell({"stuck": True})

    def load(self) -> LoadedProgram:
        """Return the program, in a process with its settings and its process group. Raises Invalid."""
        self.step("load")
        try:
            program = load(self.request["text"], self.request.get("inputs"), self._prepare)
            if self.request["mode"] in _OF_ALL_RANKS and process_group.runs_peer(program.recipe["group"]):
                program.become_peer()
            return program
        except (Exception, SystemExit) as error:
            raise Invalid from error

    def _prepare(self, recipe: RecipeData) -> None:
        self._join_group(recipe)
        apply(recipe, self._threads)

    def _join_group(self, recipe: RecipeData) -> None:
        """Make the process group that the program needs. The other ranks of a real group answer the request too.

        A query whose ranks all wait for ever is ended, as at its time-out.
        """
        group, request = recipe["group"], self.request
        real = process_group.is_real(group) and request["mode"] in _OF_ALL_RANKS
        early = process_group.read_too_early(request["text"]) if process_group.is_real(group) else None
        if early is not None:
            raise ValueError(f"{early} is read before wait_tensor")
        peers: set[int] = set()
        judged = "rank" not in request
        if group is not None and real and judged:
            peers = process_group.start_peers(group, self._answers)
        elif group is not None and real:
            group["rank"] = request["rank"]
        process_group.join(recipe, fake=not real)
        if group is not None and real:
            rank = process_group.whole(group)["rank"]
            process_group.watch_ranks(rank, group["size"], peers, self._stuck if judged else None)

    def eager(self, program: LoadedProgram) -> Outcome:
        """Return the outcome in eager. Raises Invalid."""
        from repro_probe.run import outputs

        try:
            return outputs.run(
                program, program.graph, lambda next_step, _: self.step("load" if next_step == "calls" else "eager")
            )
        except (Exception, SystemExit) as error:
            raise Invalid from error

    def compiled(self, program: LoadedProgram, until: Until | None = None) -> Outcome:
        """Return the outcome of the compiled program; `until` ends the run at a native compiler by ReachedNative."""
        from repro_probe.run import outputs

        def phases(next_step: outputs.Step, number: int) -> None:
            if next_step == "backward" and until == "native_backward":
                stop_at_native()
            if next_step == "forward":
                self.step("run" if number else "compile")
            else:
                self.step("load" if next_step == "calls" else "backward")

        with program.compiled_autograd():
            if program.recipe["warm_caches"]:
                outputs.run(program, program.compiled(), phases)
                forget_compiled()
            return outputs.run(program, program.compiled(), phases)

    def switch(self) -> None:
        """Switch off the subsystems of the compiler that the request names, if any, from now on."""
        switch = self.request.get("switch")
        if switch is not None:
            subsystems.switch_off(switch, os.path.join(self.request["scratch"], APPLIED))


def forget_compiled() -> None:
    """Let the next run compile anew."""
    import torch

    torch._dynamo.reset()


def stop_at_native() -> None:
    """Make the next call of a native compiler raise ReachedNative.

    They are called in torch/_inductor/async_compile.py, and for AOTInductor in torch/_inductor/codecache.py.
    """
    from torch._inductor import codecache
    from torch._inductor.async_compile import AsyncCompile

    def stop(self: Any, *arguments: Any, **named: Any) -> None:
        raise ReachedNative

    for name in ("cpp", "cpp_pybinding", "triton"):
        if hasattr(AsyncCompile, name):
            setattr(AsyncCompile, name, stop)
    if hasattr(codecache, "AotCodeCompiler"):
        setattr(codecache.AotCodeCompiler, "compile", stop)  # noqa: B010 - mypy knows it as a class method


@contextlib.contextmanager
def eager_limit(ends: float) -> Iterator[None]:
    """Raise TimeoutError in the block once this process has computed for a share of the time that is left until `ends`.

    A candidate that has lost the end of a loop would use up the time of a whole query. `ends` is in seconds since the
    epoch. CPU time of this thread is counted, so that a busy machine is no reason.
    """
    if not hasattr(signal, "SIGVTALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds, began = max(LEAST, SHARE * (ends - time.time())), time.thread_time()

    def stop(number: int, frame: object) -> None:
        if time.thread_time() - began >= seconds:
            raise TimeoutError(f"eager has not ended after {seconds:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, LEAST / 4)  # of all threads together
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


#: Exceptions by which FakeTensor gives no answer: the result depends on data, or an operator lacks support.
_UNKNOWN = (
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedOperatorException",
    "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException",
    "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
    "NotImplementedError",
)

_COMPILING = ("/torch/_dynamo/convert_frame.py", "/torch/_dynamo/symbolic_convert.py")


def is_valid_under_fake(text: str, inputs: str | None, first: bool) -> bool | None:
    """Return whether the program is valid, or None when FakeTensor cannot decide that.

    `first` says that this process has loaded no other program.
    """
    try:
        program = load(text, inputs, _join_group)
    except (SyntaxError, NameError):
        return False
    except Exception:  # an operator can be defined only once, so the definition of a later program may fail
        return False if first else None
    try:
        _propagate(program)
    except Exception as error:
        return None if _cannot_tell(describe_exception(error)) else False
    return True


def _join_group(recipe: RecipeData) -> None:
    """Make the process group of the first program with one, which serves the others too: no value is computed."""
    process_group.join(recipe, fake=True)


def _propagate(program: LoadedProgram) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    logging.getLogger("torch._subclasses.fake_tensor").disabled = True
    seed(program.recipe)
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
        for arguments in program.calls():
            with program.forward_region():
                program.graph(*arguments)


def _cannot_tell(links: list[LinkData]) -> bool:
    """Whether FakeTensor cannot run the program: it has no answer, or the program itself compiles (torch.cond)."""
    for link in links:
        if link["type"].rsplit(".", 1)[-1] in _UNKNOWN or link["type"].startswith("torch._dynamo."):
            return True
        files = [frame["file"].replace("\\", "/") for frame in link["frames"]]
        if any(file.endswith(_COMPILING) or "/torch/_higher_order_ops/" in file for file in files):
            return True
    return False
