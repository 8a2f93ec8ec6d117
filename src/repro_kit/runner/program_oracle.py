"""Ask a server process in the user's interpreter for verdicts on programs."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import psutil

from repro_kit.failure.classify import classify_reply
from repro_kit.failure.failure import Status, Verdict
from repro_kit.probe.repro_probe.protocol.orders import ProbeOptions, Switch
from repro_kit.probe.repro_probe.protocol.queries import (
    Application,
    Capabilities,
    Query,
    QueryMode,
    Recording,
    Reply,
    ReportAsked,
    RoundingData,
    ScriptOrder,
    Until,
)
from repro_kit.recipe import Recipe
from repro_kit.runner.server import QueryQueue, ServerDied, ServerProcess
from repro_kit.runner.supervised import Run
from repro_kit.script.user_imports import variables_before_torch

T = TypeVar("T")

_FAKE, _CAPABILITIES = 60.0, 120.0  # seconds for a query of these modes
_LOOK = 1.0  # seconds between looks at scripts that run
_PATIENCE = 60.0  # seconds after a query's time-out at which the server counts as stuck


class ProgramOracle:
    """Sends queries to a server (`runner/server.py`) and turns its replies into verdicts. A context manager.

    With `how` "fork", queries run in forked children of one process that has imported torch, which is fast. The server
    starts fresh interpreters after all if a forked child cannot use the machine's accelerator. With "spawn", each
    query gets a fresh interpreter. That is slow, and is meant for final checks.

    `cache` is a directory for files that queries may share. `jobs` is the number of queries that run at once. `memory`
    is the number of bytes that one query may allocate (default: the memory of the machine). A server that dies is
    started again. A query that kills the server twice gets the verdict CANNOT_TELL.
    """

    def __init__(
        self,
        python: str,
        *,
        how: Literal["fork", "spawn"] = "fork",
        cache: Path | None = None,
        jobs: int = 1,
        memory: int | None = None,
    ) -> None:
        self.python = python
        self.jobs = jobs
        self.queries = 0
        self.how = how
        self._memory = memory or psutil.virtual_memory().total
        self._server = ServerProcess(python, how=how, cache=cache)
        self._next = 0
        self._ahead: tuple[Query, QueryQueue] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and everything it started."""
        self._server.stop()

    def begin(self) -> None:
        """Start the server beside other work. A query waits until torch is imported."""
        self._server.begin()

    def share(self, libraries: Path) -> None:
        """Let queries take the kernels in `libraries` that an earlier run built (`take_libraries`)."""
        self._server.share(libraries)

    def prepare(self, recipe: Recipe) -> None:
        """Start an interpreter for the next query, which must ask for the same environment variables as `recipe`.

        The interpreter imports torch ahead of the query. With `how` "fork" this does nothing.
        """
        with suppress(ServerDied):  # the query reports the error
            self._server.send({"prepare": recipe.env})

    def check_ahead(self, text: str, inputs: Path | None, *, timeout: float = 120.0) -> None:
        """Run `text` from now on, beside other work of the caller: a `check` of it alone takes the verdict.

        Any other question ends that run.
        """
        request: Query = {**self._request("check", text, inputs, timeout), "until": None}
        queue = self._queue([request])
        with suppress(ServerDied):  # the check reports the error
            self._send_due(queue)
        self._ahead = request, queue

    def check(
        self,
        texts: Sequence[str],
        inputs: Path | None,
        *,
        timeout: float = 120.0,
        until: Until | None = None,
    ) -> Generator[Verdict, None, None]:
        """Yield the verdicts on `texts`, in order. `inputs` is the directory of stored values.

        With `until`, a program passes as soon as the generated code (of the backward) goes to a native compiler. That
        is for failures that come earlier. Closing the iterator early kills the queries that still run.
        """
        return _in_order(self._verdicts("check", texts, inputs, timeout, until))

    def eager(self, texts: Sequence[str], inputs: Path | None, *, timeout: float = 120.0) -> Iterator[Verdict]:
        """Yield `PASS` or `INVALID` for each text, in order: whether the program runs without the compiler."""
        return _in_order(self._verdicts("eager", texts, inputs, timeout))

    def fake(self, texts: Sequence[str], inputs: Path | None) -> list[bool | None]:
        """Return whether each text is valid, without running a kernel; None if that cannot be told."""
        request: Query = {**self._request("fake", "", inputs, _FAKE), "texts": list(texts)}
        return list(self._ask(request).get("valid") or [None] * len(texts))

    def record(
        self,
        text: str,
        inputs: Path | None,
        *,
        values: Sequence[str] = (),
        save: Path | None = None,
        timeout: float = 120.0,
    ) -> tuple[Verdict, list[dict[str, Any]]]:
        """Run `text` in eager, and return for each call the metadata of every value of `graph`.

        docs/explanation/zygote.md has the format. The values named in `values` are saved to `save`. The list is empty
        unless the verdict is `PASS`.
        """
        request = self._request("record", text, inputs, timeout)
        request["values"] = list(values)
        request["save"] = str(save.resolve()) if save else None
        reply = self._ask(request)
        verdict = _verdict(reply)
        return verdict, [reply["values"], *reply["later_calls"]] if verdict.status is Status.PASS else []

    def diverge(self, text: str, inputs: Path | None, *, timeout: float = 120.0, gradients: bool = False) -> Divergence:
        """Return the statements of `graph` at which the compiled program begins to differ from eager.

        The values are looked at first, or else (`gradients`) the gradients.

        The result is only a hint. With the inputs and outputs that show all values and gradients the failure may be
        gone, or the program may not compile; the result is empty then.
        """
        reply = self._ask({**self._request("diverge", text, inputs, timeout), "gradients": gradients})
        harmless, right = tuple(reply.get("harmless") or ()), tuple(reply.get("unsuspected") or ())
        return Divergence(tuple(reply.get("names") or ()), bool(reply.get("backward")), harmless, right)

    def explain_rounding(self, text: str, inputs: Path | None, *, timeout: float = 120.0) -> RoundingData | None:
        """Return why a difference of `text` is rounding: the errors, and what restores eager's rounding."""
        reply = self._ask(self._request("rounding", text, inputs, timeout))
        return reply.get("explained")

    def report(self, text: str, inputs: Path | None, asked: ReportAsked, *, timeout: float = 120.0) -> Reply:
        """Ask for what a report says of `text` beyond its verdict; `told` of the reply is the answer.

        Without an answer, the reply says how the query ended.
        """
        request: Query = {**self._request("report", text, inputs, timeout), "report": asked}
        return self._ask(request)

    def switched(
        self,
        switched_texts: Sequence[tuple[str, Switch | None]],
        inputs: Path | None,
        *,
        timeout: float = 120.0,
    ) -> Iterator[tuple[Verdict, list[Application]]]:
        """Yield for each (text, switch) the verdict, and the applications of the compiler's subsystems, in order.

        A switch turns some of the applications off. With None in place of a switch, no application is recorded.
        """
        requests: list[Query] = [
            {**self._request("check", text, inputs, timeout), "switch": switch} for text, switch in switched_texts
        ]
        answers = ((index, (_verdict(reply), reply.get("applied") or [])) for index, reply in self._replies(requests))
        return _in_order(answers)

    def run_scripts(
        self,
        orders: Sequence[ScriptOrder],
        *,
        timeout: float = 120.0,
        is_stuck: Callable[[ScriptOrder], bool] | None = None,
    ) -> Iterator[Run]:
        """Run each script, and yield in order how it ended; its findings, trace and output are in its directory.

        A script for which `is_stuck` is true while it runs ends at once, as at its time limit.
        """
        requests: list[Query] = [{**self._request("script", "", None, timeout), "script": order} for order in orders]
        return _in_order((index, _run_of(reply)) for index, reply in self._replies(requests, is_stuck))

    def capabilities(self) -> Capabilities:
        """Return the parts of the compiler that this torch can switch off; empty when the server does not answer."""
        reply = self._ask(self._request("levers", "", None, _CAPABILITIES))
        return reply.get("levers") or {}

    def _verdicts(
        self,
        mode: QueryMode,
        texts: Sequence[str],
        inputs: Path | None,
        timeout: float,
        until: Until | None = None,
    ) -> Iterator[tuple[int, Verdict]]:
        requests: list[Query] = [{**self._request(mode, text, inputs, timeout), "until": until} for text in texts]
        for index, reply in self._replies(requests):
            yield index, _verdict(reply)

    def _request(self, mode: QueryMode, text: str, inputs: Path | None, timeout: float) -> Query:
        self._next += 1
        return {
            "id": self._next,
            "mode": mode,
            "text": text,
            "inputs": str(inputs.resolve()) if inputs else None,
            "timeout": timeout,
            "memory": self._memory,
        }

    def _ask(self, request: Query) -> Reply:
        """The reply to one request."""
        ((_, reply),) = self._replies([request])
        return reply

    def _replies(
        self, requests: Sequence[Query], is_stuck: Callable[[ScriptOrder], bool] | None = None
    ) -> Iterator[tuple[int, Reply]]:
        """Keep `jobs` requests running until all are answered. Yield (index, reply) as they end."""
        queue = self._queue(requests)
        try:
            while not queue.is_done:
                try:
                    self._send_due(queue)
                    reply = self._receive(queue, is_stuck)
                except ServerDied as died:
                    for index in queue.server_died():
                        yield index, {"status": "infra", "text": str(died)}
                    continue
                answered = queue.answered(reply)
                if answered is not None:
                    self.queries += 1
                    yield answered, reply
        finally:
            self._cancel(queue)

    def _queue(self, requests: Sequence[Query]) -> QueryQueue:
        """A queue of `requests`: the one that runs ahead if it is the same request; else that one ends."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            if [{**request, "id": ahead[0]["id"]} for request in requests] == [ahead[0]]:
                return ahead[1]
            self._cancel(ahead[1])
        return QueryQueue(requests, self.jobs)

    def _cancel(self, queue: QueryQueue) -> None:
        with suppress(ServerDied):
            for request in queue.running:
                self._server.send({"cancel": request["id"]})

    def _send_due(self, queue: QueryQueue) -> None:
        """Send the requests that may run now."""
        while (request := queue.next_to_send()) is not None and self._ready_for(request, bool(queue.running)):
            queue.start()
            self._server.send(request)

    def _receive(self, queue: QueryQueue, is_stuck: Callable[[ScriptOrder], bool] | None) -> Reply:
        """The next reply. Scripts for which `is_stuck` is true meanwhile are ended."""
        until = time.monotonic() + max(request["timeout"] for request in queue.running) + _PATIENCE
        while is_stuck is not None and not self._server.is_readable(_LOOK) and time.monotonic() < until:
            for request in queue.running:
                if is_stuck(request["script"]):
                    self._server.send({"expire": request["id"]})
        return self._server.receive(until - time.monotonic())

    def _ready_for(self, request: Query, busy: bool) -> bool:
        """Whether the server runs with the variables that the request needs. An idle server is restarted with them.

        Torch reads most of its variables when it is imported, so a forked child cannot have different ones.
        """
        wanted = _variables(request) if self.how == "fork" else {}
        if wanted == self._server.variables:
            return True
        if busy:
            return False
        self._server.stop()
        self._server.variables = wanted
        return True


@dataclass(frozen=True)
class Divergence:
    """The statements, by the names that they assign, at which a compiled program begins to differ from eager.

    `backward`: the gradients that they give differ, and not the values that they make. `harmless`: those that differ
    although no result of the program shows it. `right`: those whose values were right where the results were wrong.
    """

    names: tuple[str, ...] = ()
    backward: bool = False
    harmless: tuple[str, ...] = ()
    right: tuple[str, ...] = ()


def script_order(
    text: str,
    directory: Path,
    options: ProbeOptions | None = None,
    *,
    env: Mapping[str, str] | None = None,
    ranks: int = 1,
    recording: Recording | None = None,
) -> ScriptOrder:
    """The order to run a script under the probe, which changes it by `options`; without options it is observed."""
    return {
        "text": text,
        "directory": str(directory.absolute()),
        "mode": "override" if options else "observe",
        "options": options or {},
        "env": dict(env or {}),
        "env_before_torch": variables_before_torch(text, frozenset(os.environ)),
        "recording": recording,
        "ranks": ranks,
    }


def _run_of(reply: Reply) -> Run:
    """How a script ended that the server ran."""
    status, signal, timed_out = reply.get("exit_status"), reply.get("signal"), bool(reply.get("timed_out"))
    ended = status is not None or signal is not None or timed_out
    problem = "" if ended else reply.get("text") or "no reply"
    refused, seconds = tuple(reply.get("refused") or ()), reply.get("seconds") or 0.0
    return Run(status, signal, timed_out, seconds, peak_memory=0, refused=refused, problem=problem)


def _variables(request: Query) -> dict[str, str]:
    """Return the environment variables of the recipe in the request's program, or those that its script sets early."""
    if request["mode"] == "script":
        return request["script"]["env_before_torch"]
    try:
        body = ast.parse(request["text"]).body
        for statement in body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "RECIPE":
                return dict(ast.literal_eval(statement.value).get("env", {}))
    except (SyntaxError, ValueError):
        return {}  # the query reports what is wrong
    return {}


def _verdict(reply: Reply) -> Verdict:
    verdict = classify_reply(reply)
    verdict = replace(verdict, fallback_random=bool(reply.get("fallback_random")))
    return replace(verdict, note=reply["note"]) if reply.get("note") else verdict


def _in_order(numbered: Iterator[tuple[int, T]]) -> Generator[T, None, None]:
    waiting: dict[int, T] = {}
    next_index = 0
    for index, answer in numbered:
        waiting[index] = answer
        while next_index in waiting:
            yield waiting.pop(next_index)
            next_index += 1
