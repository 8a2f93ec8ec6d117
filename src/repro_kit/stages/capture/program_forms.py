"""The ways to write a recorded graph as a program; the most faithful way comes first."""

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
from repro_kit.failure.kinds import Kind
from repro_kit.graph import Program, parse, render
from repro_kit.graph.effects import NAMESPACES
from repro_kit.graph.placement import group_of, with_names, with_peer
from repro_kit.graph.reading.from_graph import Variant, build_program
from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord
from repro_kit.graph.reading.input_lines import has_relations
from repro_kit.graph.slice import WITH_DEFINITIONS, customisations, definitions, preamble_words
from repro_kit.probe.repro_probe.protocol.graph_data import Region
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES, PACKAGED, Backward
from repro_kit.recipe import LADDER, Autocast, ProcessGroup, Recipe, judged_as
from repro_kit.runner.read_findings import Recorded
from repro_kit.runner.torchrun import MOST_RANKS
from repro_kit.stages.capture.recording import arguments_for

#: Settings that torch.compile changes itself while it compiles with `dynamic=`.
_SET_BY_DYNAMIC = ("dynamo.assume_static_by_default", "dynamo.automatic_dynamic_shapes")

_RELATED = "with the bases and the history of its inputs"


@dataclass(frozen=True)
class Attempt:
    """The text of a program, with its recipe, its graph, and in words how it was made."""

    text: str
    recipe: Recipe
    graph: GraphRecord
    how: str


class Variants:
    """Builds the attempts for one recorded process. `files`: the user's own Python files.

    `tolerance`: (rtol, atol) for wrong results; None for the default.
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
        """All attempts for `graph`. Raises ReproKitError, with the reason, when there are none."""
        if graph.problem:
            raise StageError(f"Graph {graph.compile_id} could not be recorded: {graph.problem}.")
        needed = self._needed(graph)
        words = WITH_DEFINITIONS if self._is_users(graph) else preamble_words(needed or self.extras)
        preambles = [(needed, words)] if needed else [("", ""), *([(self.extras, words)] if self.extras else [])]
        shapes = list(self._shapes(graph))
        yield from _written(graph, shapes, preambles)
        if self.kind is Kind.ACCURACY:  # a fake group's values are the same for some wrong gradients
            yield from _written(graph, list(_on_real_ranks(shapes[:1])), preambles)
        contexts, preamble = self._surroundings(graph)
        if contexts:
            shapes = [
                (recipe.with_(contexts=recipe.contexts + contexts), variant, how) for recipe, variant, how in shapes
            ]
            preambles = [(preamble, "in the script's contexts")]
            yield from _written(graph, shapes, preambles)
        if self._compiled_before(graph):
            recipe, variant, how = shapes[0]
            warm = (recipe.with_(warm_caches=True), variant, _words(how, "from warm caches"))
            yield from _written(graph, [warm], preambles)
        if self.kind is not Kind.ACCURACY:  # what one process shows is found by then
            yield from _written(graph, list(_on_real_ranks(shapes[:1])), preambles)

    def _surroundings(self, graph: GraphRecord) -> tuple[tuple[str, ...], str]:
        """The ``with`` items around the call that use torch, and a preamble with the definitions that they need."""
        contexts = []
        wanted_names: dict[Path, set[str]] = {}
        if self._is_users(graph):
            wanted_names[Path(graph.backend.file or "")] = {graph.backend.qualname or ""}
        for region in graph.recipe.get("regions", ()):
            homes = self._homes(region)
            texts = [definitions(self.sources[file], names) for file, names in homes.items()]
            if all(texts) and "torch" in "".join([region["expression"], *texts]):
                contexts.append(region["expression"])
                for file, names in homes.items():
                    wanted_names.setdefault(file, set()).update(names)
        return tuple(contexts), self._customisations(wanted_names)

    def _homes(self, region: Region) -> dict[Path, set[str]]:
        """The names that a region needs, by the user's file that defines or imports them."""
        homes: dict[Path, set[str]] = {}
        for name, file in region["names"].items():
            home = Path(file) if Path(file) in self.sources else Path(region["file"])
            if home in self.sources and name != "torch":  # every program imports torch
                homes.setdefault(home, set()).add(name)
        return homes

    def _compiled_before(self, graph: GraphRecord) -> bool:
        """Whether the process compiled the same graph before, so that this graph may come from a cache."""
        return any(earlier.code == graph.code and earlier.number < graph.number for earlier in self.recorded.graphs)

    def _shapes(self, graph: GraphRecord) -> Iterator[tuple[Recipe, Variant, str]]:
        recipe = self.recipe(graph)
        symbolic = any(record.symbolic or record.as_tensor for record in graph.inputs)
        yield recipe, Variant(), ""
        related = any(has_relations(record) for record in _tensors(graph.inputs))
        if related:
            yield recipe, Variant(related=True), _RELATED
        if symbolic:
            yield recipe.with_(dynamic=True), Variant(sizes="arguments"), "dynamic=True"
        calls = self._calls(graph)
        if len(calls) > 1:
            yield recipe, Variant(calls=calls), f"{len(calls)} calls"
            static_first = Variant(sizes="arguments", calls=calls)
            yield recipe.with_(dynamic=None), static_first, f"{len(calls)} calls, static first"
        # fullgraph also decides which scalars are captured.
        if graph.recipe.get("fullgraph") is False and not _is_entry(graph):
            yield recipe.with_(fullgraph=False), Variant(), "fullgraph=False"
            if related:
                yield recipe.with_(fullgraph=False), Variant(related=True), f"fullgraph=False, {_RELATED}"

        if related and len(calls) > 1:
            yield recipe, Variant(related=True, calls=calls), f"{len(calls)} calls, {_RELATED}"

    def _calls(self, graph: GraphRecord) -> tuple[tuple[InputRecord, ...], ...]:
        """The recorded calls of all graphs of the same frame whose inputs fit `graph`, in order."""
        frame = graph.compile_id.split("/")[0]
        family = {member.number: member for member in self.recorded.graphs if member.compile_id.split("/")[0] == frame}
        calls = [
            arguments_for(graph.inputs, family[number].inputs, inputs)
            for number, inputs in self.recorded.calls_of(family)
        ]
        return tuple(inputs for inputs in calls if inputs is not None)

    def recipe(self, graph: GraphRecord) -> Recipe:
        """The recipe: how the graph was compiled and run."""
        recorded, backend = graph.recipe, graph.backend
        autocast = recorded.get("autocast")
        threads = recorded.get("threads")
        dtype = recorded.get("default_dtype")
        plain_ints = any(input_.symbolic and not _carried(input_, graph) for input_ in graph.inputs)
        return Recipe(
            backend=self._backend(graph),
            mode=backend.mode,
            options=dict(backend.options),
            dynamic=True if plain_ints else backend.dynamic,
            fullgraph=not _is_entry(graph),
            backward=self._backward(graph),
            grad_mode="no_grad" if backend.name in PACKAGED else recorded.get("grad_mode", "enabled"),
            autocast=Autocast(**autocast) if autocast else None,
            contexts=(f"torch.device({recorded['device']!r})",) if recorded.get("device") else (),
            group=_group(graph)[0],
            compiled_autograd=self._compiles_autograd(graph),
            threads=threads,
            memory=self._memory(graph),
            default_dtype=None if dtype == "torch.float32" else dtype,
            config=_own_config(recorded.get("config", {}), backend.dynamic),
            **judged_as(self.kind),
            rtol=self.tolerance[0] if self.tolerance else None,
            atol=self.tolerance[1] if self.tolerance else None,
        )

    def _backend(self, graph: GraphRecord) -> str:
        return graph.backend.qualname or "" if self._is_users(graph) else graph.backend.name or "inductor"

    def _is_users(self, graph: GraphRecord) -> bool:
        """Whether the backend is a callable that a file of the user's defines."""
        file = graph.backend.file
        return (
            not _is_entry(graph)
            and graph.backend.name not in LADDER
            and file is not None
            and Path(file) in self.sources
        )

    def _backward(self, graph: GraphRecord) -> Backward:
        event = self.recorded.backward_of(graph.number)
        if event is None:
            trains = any(input_.requires_grad for input_ in graph.inputs)
            return "sum" if trains and self._compiles_autograd(graph) else "none"
        return "sum" if event.uniform else "randn"

    def _memory(self, graph: GraphRecord) -> int | None:
        """The memory limit that an allocation on the host exceeded: that of the process, else that of the machine.

        The limit keeps the failure the same on a machine with more memory, however small the program gets.
        """
        if self.kind is not Kind.OOM or any(tensor.device != "cpu" for tensor in _tensors(graph.inputs)):
            return None
        return graph.recipe.get("memory") or psutil.virtual_memory().total

    def _compiles_autograd(self, graph: GraphRecord) -> bool:
        """Whether compiled autograd was on when the graph was compiled, or compiled a graph itself."""
        made_a_graph = any(record.compile_id.startswith("!") for record in self.recorded.graphs)
        return made_a_graph or bool(graph.recipe.get("compiled_autograd"))

    def _needed(self, graph: GraphRecord) -> str:
        """Definitions that the program needs to start: a callable backend, and operators of the user's."""
        pieces = []
        if self._is_users(graph):
            source = self.sources[Path(graph.backend.file or "")]
            text = definitions(source, [graph.backend.qualname or ""])
            if not text:
                raise StageError(f"The backend {graph.backend.qualname} is not defined at the top level of its file.")
            pieces.append(text)
        if _own_operators(graph):
            pieces.append(self.extras)
        pieces += self._kernels(graph)
        return "\n\n".join(dict.fromkeys(filter(None, pieces)))

    def _kernels(self, graph: GraphRecord) -> Iterator[str]:
        """The definitions of the Triton kernels that the graph launches; imports of those of installed packages."""
        kernels = {(launch.kernel.name, launch.kernel.file): launch.kernel for launch in graph.launches.values()}
        for kernel in kernels.values():
            if sum(name == kernel.name for name, _ in kernels) > 1:
                raise StageError(f"The graph launches Triton kernels of two files that are both called {kernel.name}.")
            file, name = Path(kernel.file or ""), kernel.name or ""
            if file in self.sources:
                text = definitions(self.sources[file], [name])
            else:
                text = f"from {kernel.module} import {name}" if kernel.module not in (None, "__main__") else ""
            if not text:
                raise StageError(f"The Triton kernel {name} is not defined at the top level of its file.")
            yield text

    def _customisations(self, wanted_names: Mapping[Path, Collection[str]] = MappingProxyType({})) -> str:
        """The statements of the user's files that change the compiler or define `wanted_names`."""
        texts = []
        for path, source in self.sources.items():
            try:
                texts.append(customisations(source, wanted_names.get(path, ())))
            except SyntaxError:  # a template or a Python 2 file, which the program does not import
                continue
        return "\n\n".join(filter(None, texts))


def _written(
    graph: GraphRecord, shapes: Sequence[tuple[Recipe, Variant, str]], preambles: Sequence[tuple[str, str]]
) -> Iterator[Attempt]:
    """Each shape with each preamble, preceded by the settings of the whole process."""
    switches = "\n".join(graph.recipe.get("switches", ()))
    _, names = _group(graph)
    codes = {path: with_names(code, names) for path, code in graph.modules.items()}
    graph = replace(graph, code=with_names(graph.code, names), modules=codes)
    for recipe, variant, how in shapes:
        for preamble, words in preambles:
            full = replace(variant, preamble="\n\n".join(filter(None, [switches, preamble])))
            yield Attempt(render(parse(build_program(graph, recipe, full))), recipe, graph, _words(how, words))


def _group(graph: GraphRecord) -> tuple[ProcessGroup | None, dict[str, str]]:
    """The process group that the graph's collectives need, and the names that replace the names of its groups."""
    world = graph.recipe.get("world")
    if world is None:
        return None, {}
    return group_of([*graph.modules.values(), graph.code], world["size"], world["rank"], world["groups"])


def _on_real_ranks(shapes: Sequence[tuple[Recipe, Variant, str]]) -> Iterator[tuple[Recipe, Variant, str]]:
    """Each shape with a real process for each rank, if all ranks can run the same program."""
    for recipe, variant, how in shapes:
        if recipe.group is not None and not recipe.group.subgroups and recipe.group.size <= MOST_RANKS:
            group = replace(recipe.group, backend="gloo")
            yield recipe.with_(group=group), variant, _words(how, f"{group.size} ranks")


def of_two_codes(
    processes: Sequence[Recorded], kind: Kind, files: tuple[Path, ...], tolerance: tuple[float, float] | None = None
) -> Iterator[Attempt]:
    """Attempts in which some ranks run another graph than the judged one, as they did in the recorded run.

    The graphs have the same compile id. More than two different graphs are left out, as are groups besides the world.
    """
    for process in processes:
        for graph in process.graphs:
            alike = [
                (other, twin) for other in processes for twin in other.graphs if twin.compile_id == graph.compile_id
            ]
            by_rank = {twin.rank: (other, twin) for other, twin in alike if twin.rank is not None}
            codes = {rank: (twin.code, *twin.modules.values()) for rank, (_, twin) in by_rank.items()}
            if len(set(codes.values())) != 2 or len(codes) != (graph.recipe.get("world") or {}).get("size"):
                continue
            own = (graph.code, *graph.modules.values())
            others = tuple(rank for rank, code in sorted(codes.items()) if code != own)
            recorded, twin = by_rank[others[0]]
            peers = _on_ranks(Variants(recorded, kind, files, tolerance), twin)
            own_attempts = _on_ranks(Variants(process, kind, files, tolerance), graph)
            for attempt, peer in zip(own_attempts, peers, strict=False):
                yield _with_other_code(attempt, parse(peer.text), others)


def _on_ranks(variants: Variants, graph: GraphRecord) -> Iterator[Attempt]:
    """The attempts of one call with a process for each rank of the world."""
    for attempt in variants.attempts(graph):
        group = attempt.recipe.group
        if group is not None and not group.is_fake and group.size == graph.recipe["world"]["size"]:
            yield attempt


def _with_other_code(attempt: Attempt, other: Program, others: tuple[int, ...]) -> Attempt:
    program, group = parse(attempt.text), attempt.recipe.group
    assert group is not None
    recipe = attempt.recipe.with_(group=replace(group, others=others))
    text = render(with_peer(program.with_(recipe=recipe), other))
    named = ", ".join(map(str, others))
    how = _words(attempt.how, f"with another graph on rank{'s' if len(others) > 1 else ''} {named}")
    return replace(attempt, text=text, recipe=recipe, how=how)


def _words(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _is_entry(graph: GraphRecord) -> bool:
    """Whether torch.export, AOTInductor or precompilation compiled the graph."""
    return graph.backend.name in ENTRIES


def _own_operators(graph: GraphRecord) -> set[str]:
    text = "\n".join([graph.code, *graph.modules.values()])
    return set(re.findall(r"torch\.ops\.(\w+)\.", text)) - NAMESPACES


def _own_config(config: dict[str, Any], dynamic: bool | None) -> dict[str, Any]:
    # compiled_autograd is a field of the recipe.
    not_own = ("dynamo.compiled_autograd", *(() if dynamic is None else _SET_BY_DYNAMIC))
    return {key: value for key, value in config.items() if key not in not_own}


def _carried(record: InputRecord, graph: GraphRecord) -> bool:
    return any(record.symbol in tensor.symbols for tensor in graph.inputs if tensor.kind == "tensor")


def _tensors(inputs: tuple[InputRecord, ...]) -> list[InputRecord]:
    return [record for record in inputs if record.kind == "tensor"]
