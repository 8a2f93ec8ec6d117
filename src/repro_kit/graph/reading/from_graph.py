"""Make a program's text from a graph that the probe recorded at Dynamo's border."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from repro_kit.errors import StageError
from repro_kit.graph.program import REGION
from repro_kit.graph.program_text import PRIMS, PRIMS_IMPORT
from repro_kit.graph.python_code import fresh_name
from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord, NameRecord
from repro_kit.graph.reading.input_lines import has_relations, related_lines, source_expression, tensor_expression
from repro_kit.graph.reading.raw_graph import (
    Attributes,
    Rename,
    body_lines,
    desugar,
    helpers,
    is_rename_of_body,
    kernel_names,
    regions,
    with_launches,
    without_renames,
)
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.recipe import Recipe
from repro_kit.serialize import plain

_FIXED = {"torch", "device", "inf", "nan", "graph", "calls", "load", "RECIPE", "NoneType", "getattr"}
_PROVIDED = {"torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "getattr"}


@dataclass(frozen=True)
class Variant:
    """One way to write a graph as a program. The first variant that fails like the original is used."""

    sizes: Literal["carried", "arguments"] = "carried"  # symbolic sizes: read from a tensor's shape, or passed as ints
    preamble: str = ""
    related: bool = False  # tensors as what they are to each other: views of their bases, results of operators
    calls: tuple[tuple[InputRecord, ...], ...] = ()  # calls of the same frame; empty: only the graph's own first call


def build_program(graph: GraphRecord, recipe: Recipe, variant: Variant) -> str:
    """The text of a program (docs/explanation/program-format.md).

    Raises StageError when the graph contains something that a program cannot hold; the message names it.
    """
    builder = _Builder(graph, variant)
    functions = {path: builder.function(path, code) for path, code in {**graph.modules, "": graph.code}.items()}
    main = functions.pop("")
    marked = {builder.body_names[path]: text for path, text in functions.items()}
    bodies = [f"@{REGION}\n{text}" if name in builder.regions else text for name, text in marked.items()]
    calls = builder.calls()
    imports = builder.imports()
    parts = [
        "# repro-kit program 1\nimport pathlib\n\nimport torch\nfrom torch import device, inf, nan",
        *imports,
        f"RECIPE = {plain(recipe)!r}",
        variant.preamble.strip(),
        helpers("\n".join([*bodies, main])),
        *bodies,
        main,
        calls,
    ]
    return "\n\n\n".join(part for part in parts if part) + "\n"


class _Builder:
    def __init__(self, graph: GraphRecord, variant: Variant) -> None:
        self.graph = graph
        self.variant = variant
        self.call_inputs = variant.calls or (graph.inputs,)
        self.taken = (set(_FIXED) | _names_in(graph)) - {path.rsplit(".", 1)[-1] for path in graph.modules}
        if clash := self.taken & kernel_names(graph.launches):
            raise StageError(f"A value of the graph has the name of the Triton kernel {min(clash)}.")
        self.taken |= kernel_names(graph.launches)
        # Not Dynamo's names: when the program is traced again, Dynamo would confuse them with its own.
        self.body_names = {path: self._fresh(f"body_{number}") for number, path in enumerate(graph.modules)}
        self.renames = {record.name: self._input_name(record) for record in graph.inputs}
        self.constants = {path: self._fresh("constant_" + _identifier(path)) for path in graph.constants}
        self.carried = self._carriers() if variant.sizes == "carried" else {}
        self.drop = set(self.carried)
        self.regions: set[str] = set()  # bodies that are compiled once for all calls

    def _fresh(self, wanted: str) -> str:
        return fresh_name(wanted, self.taken)

    def _input_name(self, record: InputRecord) -> str:
        parts = re.findall(r"[A-Za-z_]\w*|\d+", (record.source or record.name).removeprefix("L"))
        if record.kind != "tensor" and record.symbol and record.symbol == record.name:
            return record.name
        words = [part for part in parts if part not in ("_modules", "_parameters", "_buffers", "self", "size")]
        wanted = words[-1] if words and not words[-1].isdigit() else "_".join(words[-2:])
        return self._fresh(wanted if wanted.isidentifier() else record.name.lower())

    def _carriers(self) -> dict[str, str]:
        """Symbolic int inputs that equal a dimension of a tensor input: {placeholder: "x.size(0)"}."""
        carriers: dict[str, str] = {}
        for record in self.graph.inputs:
            if record.kind == "tensor" or not record.symbolic:
                continue
            for tensor in self.graph.inputs:
                if tensor.kind == "tensor" and record.symbol in tensor.symbols:
                    carriers[record.name] = f"{self.renames[tensor.name]}.size({tensor.symbols.index(record.symbol)})"
                    break
        return carriers

    def function(self, path: str, code: str) -> str:
        """One function of the program: `graph` for path "", else the body of a higher-order operator."""
        node = _only_function(code)
        parameters = [argument.arg for argument in node.args.args if argument.arg != "self"]
        node = Attributes(path, self.body_names, self.constants).visit(node)
        self.regions |= regions(node.body)
        launched = with_launches(node.body, self.graph.launches)
        statements = desugar([statement for statement in launched if not is_rename_of_body(statement)])
        if path:
            lines, kept = body_lines(statements, parameters), parameters
            head = self.body_names[path]
        else:
            lines, kept = self._main_lines(statements, parameters)
            head = "graph"
        body = "\n".join("    " + line for line in "\n".join(lines).splitlines()) or "    pass"
        return f"def {head}({', '.join(kept)}):\n{body}"

    def _main_lines(self, statements: Sequence[ast.stmt], parameters: Sequence[str]) -> tuple[list[str], list[str]]:
        renames = dict(self.renames)
        own = without_renames(statements, renames)
        floats = {renames[record.name] for record in self.graph.inputs if record.as_tensor}
        rename = Rename(renames, floats)
        lines = [ast.unparse(rename.visit(statement)) for statement in own]
        used = {part.id for line in lines for part in ast.walk(ast.parse(line)) if isinstance(part, ast.Name)}
        sizes = [f"{renames[name]} = {text}" for name, text in self.carried.items() if renames[name] in used]
        kept = [renames[name] for name in parameters if name not in self.drop]
        return sizes + lines, [*kept, *self.constants.values()]

    def calls(self) -> str:
        """The `calls` function: the inputs of all calls, each tensor once."""
        lines: list[str] = []
        written: dict[tuple[Any, ...], str] = {}
        tuples = []
        for at, records in enumerate(self.call_inputs):
            named = list(zip(self.graph.inputs, records, strict=True))
            arguments = self._call(at, named, lines, written)
            arguments += [self._constant(path, record, lines, written) for path, record in self.graph.constants.items()]
            tuples.append("(" + "".join(f"{name}, " for name in arguments).rstrip(" ") + ")")
        lines.append(f"return [{', '.join(tuples)}]")
        return "def calls():\n" + "\n".join("    " + line for line in lines)

    def _call(
        self,
        at: int,
        named: Sequence[tuple[InputRecord, InputRecord]],
        lines: list[str],
        written: dict[tuple[Any, ...], str],
    ) -> list[str]:
        suffix = f"_{at}" if at else ""
        tensors = [record for placeholder, record in named if _is_tensor(placeholder, record)]
        shared = [record.storage for record in tensors]
        related = {id(record) for record in tensors if self.variant.related and _is_related(record, shared)}
        arguments: list[str] = []
        together: list[tuple[str, InputRecord]] = []
        bases: dict[str, str] = {}
        for placeholder, record in named:
            if placeholder.name in self.drop:
                continue
            name = self.renames[placeholder.name]
            if id(record) in related:
                arguments.append(self._fresh(name + suffix) if suffix else name)
                together.append((arguments[-1], record))
            elif _is_tensor(placeholder, record):
                base = None
                if shared.count(record.storage) > 1:
                    if record.storage not in bases:
                        bases[record.storage] = self._fresh(f"{name}_base{suffix}")
                        lines.append(f"{bases[record.storage]} = {source_expression(record, flat=True)}")
                    base = bases[record.storage]
                arguments.append(self._tensor(name, suffix, record, base, lines, written))
            else:
                arguments.append(self._fresh(name + suffix) if suffix else name)
                lines.append(f"{arguments[-1]} = {_scalar(record)}")
        lines += related_lines(together, self._fresh)
        if self.variant.sizes == "carried" and self.graph.backend.dynamic is None:
            kept = [placeholder for placeholder, _ in named if placeholder.name not in self.drop]
            for argument, placeholder in zip(arguments, kept, strict=True):
                lines += [f"torch._dynamo.mark_dynamic({argument}, {dim})" for dim in _dynamic_dims(placeholder)]
        return arguments

    def _tensor(
        self,
        name: str,
        suffix: str,
        record: InputRecord,
        base: str | None,
        lines: list[str],
        written: dict[tuple[Any, ...], str],
        *,
        buffer: bool = False,
    ) -> str:
        key = (name, record.file, record.bits, record.shape, record.stride, record.offset, record.requires_grad)
        if record.file is not None and key in written and base is None:
            return written[key]
        target = self._fresh(name + suffix) if suffix else name
        lines.append(f"{target} = {tensor_expression(record, base, buffer=buffer)}")
        written[key] = target
        return target

    def _constant(self, path: str, record: InputRecord, lines: list[str], written: dict[tuple[Any, ...], str]) -> str:
        is_buffer = self.graph.backend.name in ENTRIES and not (record.parameter or record.requires_grad)
        return self._tensor(self.constants[path], "", record, None, lines, written, buffer=is_buffer)

    def imports(self) -> list[str]:
        """Import lines for other names in the generated code, and for operators that exist only after an import."""
        codes = (self.graph.code, *self.graph.modules.values())
        lines = [PRIMS_IMPORT] if any(PRIMS in code for code in codes) else []
        for name, record in self.graph.names.items():
            if name in _PROVIDED or not _mentions(self.graph, name):
                continue
            lines.append(_import_line(name, record))
        lines += ["import triton"] if "triton.language." in str(self.graph.launches) else []
        return ["\n".join(lines)] if lines else []


def _import_line(name: str, record: NameRecord) -> str:
    if record.module == "__main__" or record.module is None or (record.name and "." in record.name):
        raise StageError(
            f"The graph calls {record.name or name}, which the user's code defines; a program cannot contain it."
        )
    if record.name is None:
        return f"import {record.module} as {name}"
    return f"from {record.module} import {record.name} as {name}"


def _is_tensor(placeholder: InputRecord, record: InputRecord) -> bool:
    """Whether the argument is a tensor in the program, too: not a float that became dynamic."""
    return record.kind == "tensor" and not placeholder.as_tensor


def _is_related(record: InputRecord, shared: Sequence[str]) -> bool:
    return has_relations(record) or shared.count(record.storage) > 1


def _scalar(record: InputRecord) -> str:
    if record.kind == "other":
        raise StageError(f"Input {record.name} is {record.value}, which a program cannot hold.")
    return repr(record.value)


def _dynamic_dims(record: InputRecord) -> list[int]:
    return [at for at, symbol in enumerate(record.symbols) if not symbol.lstrip("-").isdigit()]


def _only_function(code: str) -> ast.FunctionDef:
    node = ast.parse(code.strip() + "\n").body[0]
    if not isinstance(node, ast.FunctionDef):
        raise StageError("The captured graph's code is not one function.")
    return node


def _names_in(graph: GraphRecord) -> set[str]:
    names: set[str] = set()
    for code in (graph.code, *graph.modules.values()):
        names |= {part.id for part in ast.walk(ast.parse(code.strip() + "\n")) if isinstance(part, ast.Name)}
    return names


def _mentions(graph: GraphRecord, name: str) -> bool:
    return name in _names_in(graph)


def _identifier(path: str) -> str:
    return re.sub(r"\W", "_", path)
