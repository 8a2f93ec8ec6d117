"""Write a program as a person would for a report: the function, its inputs, and one comparison with eager.

The script ends with status 0 when compiled code does what eager does, and not with 0 otherwise. It knows nothing of
who runs it: limits, signatures and exit status 125 are the business of `check.py`.
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from repro_kit.artefact import plain_run, recipe_code
from repro_kit.artefact.nesting import nested
from repro_kit.artefact.own_backward import with_own_backward
from repro_kit.artefact.plain_run import indented
from repro_kit.artefact.public_forms import public, with_regions
from repro_kit.artefact.recipe_code import Parts, Wanted, arguments_of, entry_code, is_entry
from repro_kit.failure.kinds import Kind
from repro_kit.graph.inputs import DynamicMark, Input, ScalarInput, TensorInput, names_of
from repro_kit.graph.names import renamed
from repro_kit.graph.program import Function, Program
from repro_kit.graph.program_text import docstring, render, render_function
from repro_kit.graph.python_code import bound_names
from repro_kit.graph.values import plain_view
from repro_kit.probe.repro_probe.protocol.recipe_data import PRECOMPILE
from repro_kit.recipe import Recipe

_LOADS = re.compile(r"(?<![\w.])load\(")
_FUNCTIONAL = re.compile(r"(?<![\w.])F\.")
#: What a program prints by hand when nothing is wrong.
_ENDS = {
    Kind.ACCURACY: "compiled and eager agree",
    Kind.VALIDATION: "compiled code raises, as eager does",
    Kind.RUNTIME_ERROR: "eager and compiled code raise nothing",
}
#: Variables of the lines that run, compile and compare (`plain_run`).
_VARIABLES = frozenset({"actual", "args", "expected", "model", "outputs", "outs", "raises", "results"})
_PROVIDED = ("device", "inf", "nan")
_SOURCE = r"torch\.(?:ones|zeros|rand|randn|full|tensor|empty)\([^()]*(?:\([^()]*\)[^()]*)*"
_REQUIRES = re.compile(rf"(\w+ = {_SOURCE})\)\.requires_grad_\(\)")


@dataclass(frozen=True)
class PlainScript:
    """A script, and the numbers of its first lines that run in eager, and that compile."""

    text: str
    eager_line: int
    compiled_line: int


def can_be_plain(recipe: Recipe) -> bool:
    """Whether a few lines can show the failure: not one of several processes, nor one that only a clock shows."""
    return recipe.growth is None and (recipe.group is None or recipe.group.is_fake)


def plain_script(program: Program, wanted: Wanted) -> PlainScript:
    """The text of `repro.py` for `program`."""
    program = _prepared(program, wanted)
    parts = _parts(program, wanted)
    run = plain_run.run_of(parts, wanted)
    blocks = [
        docstring(wanted.header).splitlines() if wanted.header else [],
        *_head(program, parts, run.modules),
        _settings(program.recipe),
        *_definitions(program, parts, as_class=run.as_class),
        *run.before,
    ]
    before = "\n\n".join("\n".join(block) for block in blocks if block)
    first = len(before.splitlines()) + 2
    text = "\n".join([before, "", *run.lines, ""])
    return PlainScript(text, first + run.eager_at, first + run.compiled_at)


@dataclass(frozen=True)
class SuiteTest:
    """A program as a test of PyTorch's own suite: what stands before the class, and the lines of its one method."""

    imports: str
    definitions: str
    lines: tuple[str, ...]


def suite_test(program: Program, wanted: Wanted) -> SuiteTest:
    """The parts of a test for `program`; its settings are for the decorators of the method."""
    program = _prepared(program, wanted)
    parts = _parts(program, wanted)
    run = plain_run.run_of(parts, wanted)
    head = _head(program, parts, [module for module in run.modules if module != "unittest"])
    defined = [
        recipe_code.process_lines(program.recipe),
        *_definitions(program, parts, as_class=run.as_class),
        *run.before,
    ]
    lines = tuple(_in_suite(line) for line in run.lines if not line.startswith("raises = "))
    texts = ["\n\n\n".join("\n".join(block) for block in blocks if block) for blocks in (head, defined)]
    return SuiteTest(texts[0].replace("\n\n\n", "\n\n"), texts[1], lines)


def _in_suite(line: str) -> str:
    """`line` with the comparisons of the suite's `TestCase`."""
    line = re.sub(r"\braises\(", "self.assertRaises(", line).replace(", check_stride=True", ", exact_stride=True")
    return line.replace("torch.testing.assert_close(", "self.assertEqual(").replace(", equal_nan=True", "")


def runnable(program: Program) -> str:
    """The text of `program` with lines that compile and run it, and compare the results with eager's."""
    return "\n\n".join([render(program), 'if __name__ == "__main__":\n' + "\n".join(indented(_footer(program))) + "\n"])


def _footer(program: Program) -> list[str]:
    recipe = program.recipe
    if not can_be_plain(recipe):
        return ['raise SystemExit("Several processes or a clock show this failure: run repro.py of the bundle.")']
    kind = Kind.VALIDATION if recipe.validation else Kind.ACCURACY if recipe.check else Kind.RUNTIME_ERROR
    parts = replace(_parts(program, Wanted(kind, rewritten=False)), function="graph", single=False, inputs=())
    parts = replace(parts, made_by="calls()", taken=parts.taken | {"graph", "calls"})
    run = plain_run.run_of(parts, Wanted(kind))
    lines = [f"import {module}" for module in run.modules]
    if recipe.env:
        settings = recipe_code.literal(recipe.env)
        lines += [
            "import os",
            "import sys",
            "",
            f"if not {settings}.items() <= os.environ.items():  # torch reads them when it is imported",
            f"    os.execve(sys.executable, [sys.executable, *sys.argv], {{**os.environ, **{settings}}})",
        ]
    lines += [f"import {module}" for module in recipe_code.config_imports(recipe)]
    blocks = [
        [*lines, *recipe_code.group_imports(recipe)],
        ["import resource"] if recipe.memory else [],
        _settings(recipe),
        _entry(program, parts).splitlines() if parts.entry is not None else [],
        *run.before,
        [*run.lines, f"print({recipe_code.literal(_ENDS[kind])})"],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block).splitlines()


def _prepared(program: Program, wanted: Wanted) -> Program:
    """`program` with names and, where calls are rewritten, classes and calls within calls as a person would write."""
    program = _without_clashes(program)
    return nested(with_own_backward(program, _with_plain_calls)) if wanted.rewritten else program


def _without_clashes(program: Program) -> Program:
    """`program` with other names for inputs that have the name of a variable of the script."""
    names = [name for input_ in program.inputs for name in names_of(input_) if name in _VARIABLES]
    taken = identifiers(render(program)) | _VARIABLES
    return renamed(
        program,
        {name: next(free for free in (f"{name}_", f"{name}_0", f"my_{name}") if free not in taken) for name in names},
    )


def _parts(program: Program, wanted: Wanted) -> Parts:
    """The texts of the program, with public and short names."""
    text_of = _with_plain_calls if wanted.rewritten else render_function
    short = "F" not in identifiers(render(program))

    def spelt(text: str) -> str:
        return public(text, short=short).strip("\n") if wanted.rewritten else text.strip("\n")

    bodies = tuple(spelt(text_of(body)) for body in program.bodies)
    graph, single = _simplified(spelt(text_of(program.graph)), program.graph)
    entry = arguments_of(program) if is_entry(program.recipe) else None
    numbers = unnamed_numbers(program)
    made = [input_ for input_ in program.inputs if numbers.keys().isdisjoint(names_of(input_))]
    if entry is not None:  # the call of torch.export says what is dynamic
        made = [input_ for input_ in made if not isinstance(input_, DynamicMark)]
    by_name = {input_.name: input_ for input_ in program.inputs if isinstance(input_, TensorInput)}

    def line_of(input_: Input) -> str:
        if wanted.rewritten and isinstance(input_, TensorInput):
            return plain_view(input_, by_name.get(input_.base or ""))
        return input_.line

    inputs = tuple(line for input_ in made for line in _plainer(spelt(line_of(input_))).splitlines())
    code = "\n".join([program.preamble, *bodies, graph, *inputs, *program.recipe.contexts])
    named = dict.fromkeys(name for call in program.calls for name in call)
    function = next(name for name in ("f", "graph") if name == "graph" or name not in identifiers(code))
    return Parts(
        recipe=program.recipe,
        graph=graph.replace("def graph(", f"def {function}(", 1),
        function=function,
        bodies=bodies,
        inputs=inputs,
        calls=tuple(tuple(numbers.get(name, name) for name in call) for call in program.calls),
        tensors=tuple(name for name in named if name in by_name),
        leaves=tuple(name for name in named if name in by_name and by_name[name].requires_grad),
        single=single,
        made_by="",
        code=code,
        entry=entry,
        defined=frozenset(bound_names(*ast.parse(program.preamble).body)),
        taken=frozenset(global_names(program.preamble, [*bodies, graph], [*inputs, *program.recipe.contexts])),
    )


def _with_plain_calls(function: Function) -> str:
    """The text of `function` with regions as `with` blocks, and no names for results of calls that nothing reads."""
    read = {*function.outputs, *(name for statement in function.statements for name in statement.reads)}
    idle = [each for each in function.statements if each.callee and each.target not in read]
    named = {statement: replace(statement, target=None) for statement in idle}
    return with_regions(function.with_(statements=tuple(named.get(each, each) for each in function.statements)))


def _simplified(text: str, graph: Function) -> tuple[str, bool]:
    """`text` of the graph with its only result in place of a tuple of one, and whether it has only one."""
    returned = graph.returns.expression
    if not (isinstance(returned, ast.Tuple) and len(returned.elts) == 1):
        return text, False
    return re.sub(r"    return \((.+),\)$", r"    return \1", text), True


def unnamed_numbers(program: Program) -> dict[str, str]:
    """Numbers that occur only as arguments, and so need no name."""
    read = {name for input_ in program.inputs for name in input_.reads}
    scalars = [input_ for input_ in program.inputs if isinstance(input_, ScalarInput) and input_.name not in read]
    return {scalar.name: scalar.line.partition(" = ")[2] for scalar in scalars}


def _plainer(line: str) -> str:
    """``x = torch.ones(3, requires_grad=True)`` for ``x = torch.ones(3).requires_grad_()``."""
    simple = _REQUIRES.fullmatch(line)
    return f"{simple[1]}, requires_grad=True)" if simple else line


def _head(program: Program, parts: Parts, modules: Sequence[str]) -> Iterator[list[str]]:
    """The imports, then the settings."""
    recipe, used = program.recipe, identifiers(parts.code)
    variables = [
        f"os.environ[{recipe_code.literal(name)}] = {recipe_code.literal(value)}"
        for name, value in sorted(recipe.env.items())
    ]
    needed = {*modules, *(["os"] if variables else []), *(["resource"] if recipe.memory else [])}
    needed |= {"pathlib"} if _LOADS.search(parts.code) else set()
    needed |= {"functools", "tempfile"} if recipe.backend == PRECOMPILE else set()
    of_library, others, _ = _imports_of(program.preamble)
    provided = [name for name in _PROVIDED if name in used]
    functional = _FUNCTIONAL.search(parts.code) and "F" not in parts.defined
    imports = [
        "import torch",
        *(f"import {module}" for module in recipe_code.config_imports(recipe)),
        *(["import torch.nn.functional as F"] if functional else []),
        *([f"from torch import {', '.join(provided)}"] if provided else []),
        *recipe_code.group_imports(recipe),
        *program.imports,
        *others,
    ]
    first = sorted({*(f"import {module}" for module in needed), *of_library})
    if variables:
        yield first
        yield variables
        yield imports
    else:
        yield [*first, *imports]


def _settings(recipe: Recipe) -> list[str]:
    """The statements that set the compiler, the process and the process group up."""
    return [
        *recipe_code.config_lines(recipe),
        *recipe_code.process_lines(recipe),
        *recipe_code.group_lines(recipe),
    ]


def _definitions(program: Program, parts: Parts, *, as_class: bool) -> Iterator[list[str]]:
    """What the user's code and the graph define; `as_class`: as the module that torch.export gets."""
    if _LOADS.search(parts.code):
        place = 'pathlib.Path(__file__).with_name("inputs") / name'
        yield ["def load(name):", f"    return torch.load({place}, weights_only=True)"]
    yield re.sub(r"\n{3,}", "\n\n", _imports_of(program.preamble)[2]).splitlines()
    yield from (body.splitlines() for body in parts.bodies)
    if not as_class:
        yield parts.graph.splitlines()
        if parts.entry is not None:
            yield _entry(program, parts).splitlines()
        return
    method = parts.graph.replace(f"def {parts.function}(", "def forward(self, ", 1).replace("(self, )", "(self)", 1)
    yield [f"class {parts.free('Model')}(torch.nn.Module):", *indented(method.splitlines())]


def _entry(program: Program, parts: Parts) -> str:
    """The module that torch.export gets, and the function that compiles and runs it."""
    assert parts.entry is not None
    names = {"module": parts.free("Model"), "compile_and_run": parts.free("compiled")}
    code = entry_code(program.recipe, parts.entry, names, len(program.calls), graph=parts.function)
    return code.replace("\n\n\n", "\n\n")


def global_names(preamble: str, functions: Sequence[str], lines: Sequence[str]) -> set[str]:
    """Names that a script binds at top level, or reads from there inside a function."""
    body = textwrap.indent("\n".join([*lines, "pass"]), "    ")
    names: set[str] = set()
    tables = [symtable.symtable("\n".join([preamble, *functions, f"def __inputs():\n{body}"]), "program", "exec")]
    while tables:
        table = tables.pop()
        top = table.get_type() == "module" or table.get_name() == "__inputs"
        names |= {symbol.get_name() for symbol in table.get_symbols() if top or symbol.is_global()}
        tables += table.get_children()
    return names


def _imports_of(preamble: str) -> tuple[list[str], list[str], str]:
    """The imports with which the preamble begins, those of the standard library first, and what follows them."""
    lines, at = preamble.splitlines(), 0
    found: tuple[list[str], list[str]] = ([], [])
    for node in ast.parse(preamble).body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or node.lineno <= at:
            break
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        of_library = all(name.partition(".")[0] in sys.stdlib_module_names for name in names)
        assert node.end_lineno is not None
        found[not of_library].append(ast.unparse(node))
        at = node.end_lineno
    return *found, "\n".join(lines[at:]).strip("\n")


def identifiers(text: str) -> set[str]:
    """The names in `text` that are no attributes."""
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
