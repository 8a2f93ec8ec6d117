"""The ways to write a recorded graph down as a program, most faithful first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.failure import Kind
from repro_kit.model.recipe import LADDER, Autocast, Backward, Recipe
from repro_kit.program import parse, render
from repro_kit.program.from_graph import Variant, build_program
from repro_kit.program.graph_record import GraphRecord, InputRecord
from repro_kit.program.slice import customisations, definitions
from repro_kit.runner.recorded import Recorded

#: torch.compile sets these itself for the time of a compilation with `dynamic=`.
_SET_BY_DYNAMIC = ("dynamo.assume_static_by_default", "dynamo.automatic_dynamic_shapes")

#: Operators that torch brings; any other namespace below torch.ops is the user's.
_TORCHS_OPS = {
    "aten", "prims", "prim", "higher_order", "inductor", "quantized", "mkldnn", "mkl", "onednn", "c10d",
    "_c10d_functional", "c10d_functional", "fsdp", "quantized_decomposed", "rngprims", "debugprims", "profiler", "sym",
}  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """A program's text and what is special about it, in words."""

    text: str
    recipe: Recipe
    graph: GraphRecord
    how: str


class Variants:
    """Builds the attempts for one recorded process; `files` are the user's own Python files.

    `tolerance`: (rtol, atol) to judge wrong results by; None for the usual one.
    """

    def __init__(
        self, recorded: Recorded, kind: Kind, files: tuple[Path, ...], tolerance: tuple[float, float] | None = None
    ) -> None:
        self.recorded = recorded
        self.tolerance = tolerance
        self.kind = kind
        self.sources = {path: path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()}
        self.extras = self._customisations()

    def attempts(self, graph: GraphRecord) -> Iterator[Attempt]:
        """All ways for `graph`; raises ReproKitError when there is none, saying why."""
        if graph.problem:
            raise ReproKitError(f"Graph {graph.compile_id} could not be recorded: {graph.problem}.", Exit.FAILED)
        needed = self._needed(graph)
        preambles = [needed] if needed else ["", *([self.extras] if self.extras else [])]
        for recipe, variant, how in self._shapes(graph):
            for preamble in preambles:
                full = Variant(variant.sizes, preamble, variant.calls)
                words = [how, "with the script's changes to the compiler" if preamble else ""]
                text = render(parse(build_program(graph, recipe, full)))
                yield Attempt(text, recipe, graph, ", ".join(filter(None, words)))

    def _shapes(self, graph: GraphRecord) -> Iterator[tuple[Recipe, Variant, str]]:
        recipe = self.recipe(graph)
        symbolic = any(record.symbolic for record in graph.inputs)
        yield recipe, Variant(), ""
        if symbolic:
            yield recipe.with_(dynamic=True), Variant(sizes="arguments"), "dynamic=True"
        calls = self._calls(graph)
        if len(calls) > 1:
            yield recipe, Variant(calls=calls), f"{len(calls)} calls"
            yield (
                recipe.with_(dynamic=None),
                Variant(sizes="arguments", calls=calls),
                f"{len(calls)} calls, static first",
            )
        if graph.recipe.get("fullgraph") is False:  # it also decides which scalars are captured
            yield recipe.with_(fullgraph=False), Variant(), "fullgraph=False"

    def _calls(self, graph: GraphRecord) -> tuple[tuple[InputRecord, ...], ...]:
        """Calls of all graphs of the same frame that `graph` could take too, in order."""
        frame = graph.compile_id.split("/")[0]
        family = [one for one in self.recorded.graphs if one.compile_id.split("/")[0] == frame]
        calls = self.recorded.calls_of([one.number for one in family])
        own = [len(record.shape) for record in _tensors(graph.inputs)]
        tensors = [_tensors(inputs) for _, inputs in calls]
        return tuple(_fill(graph.inputs, one) for one in tensors if [len(record.shape) for record in one] == own)

    def recipe(self, graph: GraphRecord) -> Recipe:
        """How the graph was compiled and run."""
        seen, backend = graph.recipe, graph.backend
        autocast = seen.get("autocast")
        threads = seen.get("threads")
        dtype = seen.get("default_dtype")
        plain_ints = any(it.symbolic and not _carried(it, graph) for it in graph.inputs)
        return Recipe(
            backend=self._backend(graph),
            mode=backend.mode,
            options=dict(backend.options),
            dynamic=True if plain_ints else backend.dynamic,
            fullgraph=True,
            backward=self._backward(graph),
            grad_mode=seen.get("grad_mode", "enabled"),
            autocast=Autocast(**autocast) if autocast else None,
            threads=threads,
            default_dtype=None if dtype == "torch.float32" else dtype,
            config=_own_config(seen.get("config", {}), backend.dynamic),
            check=self.kind == Kind.ACCURACY,
            rtol=self.tolerance[0] if self.tolerance else None,
            atol=self.tolerance[1] if self.tolerance else None,
        )

    def _backend(self, graph: GraphRecord) -> str:
        return graph.backend.qualname or "" if self._is_users(graph) else graph.backend.name or "inductor"

    def _is_users(self, graph: GraphRecord) -> bool:
        """Whether the backend is a callable of the user's own file."""
        file = graph.backend.file
        return graph.backend.name not in LADDER and file is not None and Path(file) in self.sources

    def _backward(self, graph: GraphRecord) -> Backward:
        event = self.recorded.backward_of(graph.number)
        if event is None:
            return "none"
        return "sum" if event.uniform else "randn"

    def _needed(self, graph: GraphRecord) -> str:
        """Definitions without which the program cannot start: a callable backend, operators of the user's."""
        pieces = []
        if self._is_users(graph):
            source = self.sources[Path(graph.backend.file or "")]
            text = definitions(source, [graph.backend.qualname or ""])
            if not text:
                raise ReproKitError(
                    f"The backend {graph.backend.qualname} is not defined at the top level of its file.", Exit.FAILED
                )
            pieces.append(text)
        if _own_operators(graph):
            pieces.append(self.extras)
        return "\n\n".join(dict.fromkeys(filter(None, pieces)))

    def _customisations(self) -> str:
        texts = []
        for source in self.sources.values():
            try:
                texts.append(customisations(source))
            except SyntaxError:  # a template or Python 2 file that only lies there
                continue
        return "\n\n".join(filter(None, texts))


def _own_operators(graph: GraphRecord) -> set[str]:
    text = "\n".join([graph.code, *graph.modules.values()])
    return set(re.findall(r"torch\.ops\.(\w+)\.", text)) - _TORCHS_OPS


def _own_config(config: dict[str, Any], dynamic: bool | None) -> dict[str, Any]:
    return {key: value for key, value in config.items() if dynamic is None or key not in _SET_BY_DYNAMIC}


def _carried(record: InputRecord, graph: GraphRecord) -> bool:
    return any(record.symbol in tensor.symbols for tensor in graph.inputs if tensor.kind == "tensor")


def _tensors(inputs: tuple[InputRecord, ...]) -> list[InputRecord]:
    return [record for record in inputs if record.kind == "tensor"]


def _fill(placeholders: tuple[InputRecord, ...], tensors: list[InputRecord]) -> tuple[InputRecord, ...]:
    """One call's arguments in the order of `placeholders`; sizes are taken from the call's own tensors."""
    left = iter(tensors)
    filled: list[InputRecord] = []
    for placeholder in placeholders:
        filled.append(next(left) if placeholder.kind == "tensor" else placeholder)
    sizes = {
        symbol: size
        for placeholder, record in zip(placeholders, filled, strict=True)
        if placeholder.kind == "tensor"
        for symbol, size in zip(placeholder.symbols, record.shape, strict=False)
    }
    return tuple(
        record if record.kind == "tensor" or record.symbol not in sizes else _with_value(record, sizes[record.symbol])
        for record in filled
    )


def _with_value(record: InputRecord, value: int) -> InputRecord:
    return replace(record, value=value)
