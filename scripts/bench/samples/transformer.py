"""A transformer as a graph of aten-like operators with the shapes of its values: no torch needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro_kit.graph import Data, Function, Program, Statement, TensorInput
from repro_kit.graph.program import tuple_of
from repro_kit.graph.values import TensorRecord, contiguous
from synthetic import Synthetic

Shape = tuple[int, ...]
BATCH, LENGTH, HEADS, WIDTH, INNER = 2, 24, 4, 80, 320
ROWS, HEAD, STACK = BATCH * LENGTH, WIDTH // HEADS, BATCH * HEADS
HIDDEN: Shape = (BATCH, LENGTH, WIDTH)
COLUMN: Shape = (BATCH, LENGTH, 1)
PER_HEAD: Shape = (BATCH, HEADS, LENGTH, HEAD)
SCORES: Shape = (BATCH, HEADS, LENGTH, LENGTH)


class _Graph:
    def __init__(self) -> None:
        self.shapes: dict[str, Shape] = {}
        self.params: list[str] = []
        self.statements: list[tuple[str, str, tuple[str, ...]]] = []

    def param(self, *shape: int) -> str:
        self.params.append(f"p{len(self.params)}")
        self.shapes[self.params[-1]] = shape
        return self.params[-1]

    def op(self, name: str, shape: Shape, *operands: str) -> str:
        target = f"v{len(self.statements)}"
        self.statements.append((target, name, operands))
        self.shapes[target] = shape
        return target

    def norm(self, x: str) -> str:
        centred = self.op("sub", HIDDEN, x, self.op("mean", COLUMN, x))
        variance = self.op("mean", COLUMN, self.op("square", HIDDEN, centred))
        scale = self.op("rsqrt", COLUMN, self.op("add_epsilon", COLUMN, variance))
        scaled = self.op("mul", HIDDEN, self.op("mul", HIDDEN, centred, scale), self.param(WIDTH))
        return self.op("add", HIDDEN, scaled, self.param(WIDTH))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        weight = self.op("t", (inputs, outputs), self.param(outputs, inputs))
        rows = self.op("view", (ROWS, inputs), x)
        product = self.op("addmm", (ROWS, outputs), self.param(outputs), rows, weight)
        return self.op("view", (BATCH, LENGTH, outputs), product)

    def attention(self, x: str) -> str:
        heads = []
        for _ in range(3):
            split = self.op("view", (BATCH, LENGTH, HEADS, HEAD), self.linear(x, WIDTH, WIDTH))
            heads.append(self.op("permute", PER_HEAD, split))
        query = self.op("view", (STACK, LENGTH, HEAD), heads[0])
        key = self.op("view", (STACK, HEAD, LENGTH), self.op("transpose", (BATCH, HEADS, HEAD, LENGTH), heads[1]))
        product = self.op("bmm", (STACK, LENGTH, LENGTH), query, key)
        scores = self.op("scale", SCORES, self.op("view", SCORES, product))
        shifted = self.op("sub", SCORES, scores, self.op("amax", (*SCORES[:3], 1), scores))
        powers = self.op("exp", SCORES, shifted)
        weights = self.op("div", SCORES, powers, self.op("sum", (*SCORES[:3], 1), powers))
        value = self.op("view", (STACK, LENGTH, HEAD), heads[2])
        mixed = self.op("bmm", (STACK, LENGTH, HEAD), self.op("view", (STACK, LENGTH, LENGTH), weights), value)
        joined = self.op("permute", (BATCH, LENGTH, HEADS, HEAD), self.op("view", PER_HEAD, mixed))
        return self.linear(self.op("view", HIDDEN, joined), WIDTH, WIDTH)

    def feed_forward(self, x: str) -> str:
        wide: Shape = (BATCH, LENGTH, INNER)
        up = self.linear(x, WIDTH, INNER)
        gate = self.op("add_one", wide, self.op("erf", wide, up))
        return self.linear(self.op("mul", wide, up, gate), INNER, WIDTH)


def transformer(count: int, culprits: Mapping[int, str]) -> tuple[Program, dict[str, Shape]]:
    """The first `count` statements of a transformer, those at `culprits` with the operator named there; all shapes."""
    graph = _Graph()
    x = graph.param(*HIDDEN)
    while len(graph.statements) < count:
        x = graph.op("add", HIDDEN, x, graph.attention(graph.norm(x)))
        x = graph.op("add", HIDDEN, x, graph.feed_forward(graph.norm(x)))
    kept = graph.statements[:count]
    read = {name for _, _, operands in kept for name in operands}
    statements = tuple(
        Statement(target, f"torch.{culprits.get(at, name)}({', '.join(operands)})")
        for at, (target, name, operands) in enumerate(kept)
    )
    params = tuple(name for name in graph.params if name in read)
    returns = tuple_of([target for target, _, _ in kept if target not in read])
    inputs = tuple(TensorInput(name, Data("randn", graph.shapes[name])) for name in params)
    return Program(Function("graph", params, statements, returns), inputs=inputs, calls=(params,)), graph.shapes


class Shaped(Synthetic):
    """A synthetic oracle that knows the shapes of values."""

    def __init__(self, shapes: Mapping[str, Shape], bugs: Sequence[str], *, path: bool = False, jobs: int = 1) -> None:
        super().__init__(bugs, path=path, jobs=jobs)
        self.shapes = shapes

    def record(self, program: Program) -> dict[str, TensorRecord]:
        metadata = super().record(program)
        return {name: TensorRecord(self.shapes[name], contiguous(self.shapes[name])) for name in metadata}
