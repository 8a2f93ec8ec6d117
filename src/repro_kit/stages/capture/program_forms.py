"""The ways to write a recorded graph down as a program, most faithful first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from repro_kit.bundle.repro.source_files import source_text
from repro_kit.errors import StageError
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import LADDER, Autocast, Recipe
from repro_kit.probe.repro_probe.protocol.graph_data import Region
from repro_kit.probe.repro_probe.protocol.recipe_data import Backward
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
        self.sources = {path: source_text(path) for path in files if path.is_file()}
        self.extras = self._customisations()

    def attempts(self, graph: GraphRecord) -> Iterator[Attempt]:
        """All ways for `graph`; raises ReproKitError when there is none, saying why."""
        if graph.problem:
            raise StageError(f"Graph {graph.compile_id} could not be recorded: {graph.problem}.")
        needed = self._needed(graph)
        changes = "with the script's changes to the compiler"
        preambles = [(needed, changes)] if needed else [("", ""), *([(self.extras, changes)] if self.extras else [])]
        shapes = list(self._shapes(graph))
        yield from _written(graph, shapes, preambles)
        contexts, preamble = self._surroundings(graph)
        if contexts:
            shapes = [(it.with_(contexts=it.contexts + contexts), variant, how) for it, variant, how in shapes]
            preambles = [(preamble, "in the script's contexts")]
            yield from _written(graph, shapes, preambles)
        if self._compiled_before(graph):
            recipe, variant, how = shapes[0]
            warm = (recipe.with_(warm_caches=True), variant, _words(how, "from warm caches"))
            yield from _written(graph, [warm], preambles)

    def _surroundings(self, graph: GraphRecord) -> tuple[tuple[str, ...], str]:
        """The ``with`` items around the call that concern torch, and the preamble with all that they need."""
        contexts = []
        wanted: dict[Path, set[str]] = {}
        if self._is_users(graph):
            wanted[Path(graph.backend.file or "")] = {graph.backend.qualname or ""}
        for region in graph.recipe.get("regions", ()):
            names = self._homes(region)
            texts = [definitions(self.sources[file], its) for file, its in names.items()]
            if all(texts) and "torch" in "".join([region["expression"], *texts]):
                contexts.append(region["expression"])
                for file, its in names.items():
                    wanted.setdefault(file, set()).update(its)
        return tuple(contexts), self._customisations(wanted)

    def _homes(self, region: Region) -> dict[Path, set[str]]:
        """The names that a region needs, by the user's file that defines them, or imports them from elsewhere."""
        homes: dict[Path, set[str]] = {}
        for name, file in region["names"].items():
            home = Path(file) if Path(file) in self.sources else Path(region["file"])
            if home in self.sources and name != "torch":  # which every program imports
                homes.setdefault(home, set()).add(name)
        return homes

    def _compiled_before(self, graph: GraphRecord) -> bool:
        """Whether the process had compiled the same graph already, so that it may have come from a cache."""
        return any(one.code == graph.code and one.number < graph.number for one in self.recorded.graphs)

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
        return tuple(
            _fill(graph.inputs, tensor) for tensor in tensors if [len(record.shape) for record in tensor] == own
        )

    def recipe(self, graph: GraphRecord) -> Recipe:
        """How the graph was compiled and run."""
        seen, backend = graph.recipe, graph.backend
        autocast = seen.get("autocast")
        threads = seen.get("threads")
        dtype = seen.get("default_dtype")
        plain_ints = any(input_.symbolic and not _carried(input_, graph) for input_ in graph.inputs)
        return Recipe(
            backend=self._backend(graph),
            mode=backend.mode,
            options=dict(backend.options),
            dynamic=True if plain_ints else backend.dynamic,
            fullgraph=True,
            backward=self._backward(graph),
            grad_mode=seen.get("grad_mode", "enabled"),
            autocast=Autocast(**autocast) if autocast else None,
            contexts=(f"torch.device({seen['device']!r})",) if seen.get("device") else (),
            compiled_autograd=self._compiles_autograd(graph),
            threads=threads,
            memory=self._memory(graph),
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
            trains = any(input_.requires_grad for input_ in graph.inputs)
            return "sum" if trains and self._compiles_autograd(graph) else "none"
        return "sum" if event.uniform else "randn"

    def _memory(self, graph: GraphRecord) -> int | None:
        """The limit that an allocation on the host ran into: the process's own, else what the machine has.

        With it, the failure is the same on a machine that has more, however small the program gets.
        """
        if self.kind is not Kind.OOM or any(tensor.device != "cpu" for tensor in _tensors(graph.inputs)):
            return None
        return graph.recipe.get("memory") or psutil.virtual_memory().total

    def _compiles_autograd(self, graph: GraphRecord) -> bool:
        """Whether compiled autograd was on when the graph was compiled, or made a graph of its own."""
        made = any(one.compile_id.startswith("!") for one in self.recorded.graphs)
        return made or bool(graph.recipe.get("compiled_autograd"))

    def _needed(self, graph: GraphRecord) -> str:
        """Definitions without which the program cannot start: a callable backend, operators of the user's."""
        pieces = []
        if self._is_users(graph):
            source = self.sources[Path(graph.backend.file or "")]
            text = definitions(source, [graph.backend.qualname or ""])
            if not text:
                raise StageError(f"The backend {graph.backend.qualname} is not defined at the top level of its file.")
            pieces.append(text)
        if _own_operators(graph):
            pieces.append(self.extras)
        return "\n\n".join(dict.fromkeys(filter(None, pieces)))

    def _customisations(self, wanted: Mapping[Path, Collection[str]] = MappingProxyType({})) -> str:
        """What the user's files do to the compiler, and define of the `wanted` names, by file."""
        texts = []
        for path, source in self.sources.items():
            try:
                texts.append(customisations(source, wanted.get(path, ())))
            except SyntaxError:  # a template or Python 2 file that only lies there
                continue
        return "\n\n".join(filter(None, texts))


def _written(
    graph: GraphRecord, shapes: Sequence[tuple[Recipe, Variant, str]], preambles: Sequence[tuple[str, str]]
) -> Iterator[Attempt]:
    """Each shape with each preamble, preceded by what holds for the whole process; and how that is said in words."""
    switches = "\n".join(graph.recipe.get("switches", ()))
    for recipe, variant, how in shapes:
        for preamble, words in preambles:
            full = replace(variant, preamble="\n\n".join(filter(None, [switches, preamble])))
            yield Attempt(render(parse(build_program(graph, recipe, full))), recipe, graph, _words(how, words))


def _words(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _own_operators(graph: GraphRecord) -> set[str]:
    text = "\n".join([graph.code, *graph.modules.values()])
    return set(re.findall(r"torch\.ops\.(\w+)\.", text)) - _TORCHS_OPS


def _own_config(config: dict[str, Any], dynamic: bool | None) -> dict[str, Any]:
    not_own = ("dynamo.compiled_autograd", *(() if dynamic is None else _SET_BY_DYNAMIC))  # the first is a field
    return {key: value for key, value in config.items() if key not in not_own}


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
