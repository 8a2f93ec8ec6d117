"""Write `repro.py` for a program, as a person would write it for the same graph.

`stages/bundle/forms.py` chooses the program, and `form_files.py` calls `render_program`. The templates are in
`templates/` at the top level: `repro.py.j2`, and `program.py.j2`, the part that it shares with the test.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from repro_kit.artefact import recipe_code
from repro_kit.artefact.plain import can_be_plain, global_names, identifiers, plain_script, suite_test, unnamed_numbers
from repro_kit.artefact.public_forms import with_regions
from repro_kit.artefact.recipe_code import Arguments, Wanted, arguments_of, entry_code, is_entry
from repro_kit.bundle.facts import Facts
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.repro.check_program import HANG, LIMIT, WAITING, program_check
from repro_kit.failure.failure import Difference, Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import MEMORY
from repro_kit.graph import Peer, Program
from repro_kit.graph.inputs import DynamicMark, names_of
from repro_kit.graph.program_text import render_function
from repro_kit.graph.python_code import bound_names
from repro_kit.probe import embedded
from repro_kit.probe.repro_probe.protocol.failure_data import ARGUMENT
from repro_kit.probe.repro_probe.protocol.recipe_data import PRECOMPILE
from repro_kit.recipe import Recipe

SMALL = 100  # lines; PyTorch asks for shorter reproducers
REPRO, CHECK = "repro.py", "check.py"
_EXIT_STATUS = "Exit status: 1 if it fails, 0 if it passes, 125 if it cannot run here."
_WIDTH = 98
_IN_PLACE = re.compile(r"\.[a-z]\w*[a-z0-9]_\(|\bout=|_foreach_|\]\s*=[^=]|torch\.ops\.(?!aten|prims|higher_order)")
_LOADS = re.compile(r"(?<![\w.])load\(")
_ASYNCHRONOUS = re.compile(r"['\"](cuda|xpu)(?::\d+)?['\"]")
_COPIED = "[out.clone() if isinstance(out, torch.Tensor) else out for out in outputs]"
_WITHOUT_BUFFERS = "[arg for arg in args if not isinstance(arg, torch.nn.Buffer)]"
_TENSORS = "for out in outputs if isinstance(out, torch.Tensor)"
#: The functions of `repro.py` itself.
_OWN = ("run", "main", "watch", "work", "wait", "differentiable", "aliases", "compile_and_run")
_PROVIDED = ("device", "inf", "nan")


@dataclass(frozen=True)
class ProgramSource:
    """A program in the pieces that make up the script, each as Python text."""

    recipe: Recipe
    functions: tuple[str, ...]  # bodies of higher-order ops, then `graph`
    inputs: tuple[str, ...]  # lines
    calls: tuple[str, ...]  # one tuple of arguments each
    imports: tuple[str, ...] = ()
    preamble: str = ""
    stored: bool = False  # some input is read from a file
    arguments: Arguments = field(default_factory=Arguments)  # for torch.export and AOTInductor

    @property
    def text(self) -> str:
        """The whole text, to search for names."""
        return "\n".join([self.preamble, *self.functions, *self.inputs, *self.calls, *self.recipe.contexts])


def source_of(program: Program, *, regions: bool = True) -> ProgramSource:
    """The pieces of `program`. With `regions`, calls that open and close a region become a `with` block."""
    text_of = with_regions if regions else render_function
    numbers = unnamed_numbers(program)
    named = [input_ for input_ in program.inputs if numbers.keys().isdisjoint(names_of(input_))]
    if is_entry(program.recipe):  # the call of torch.export says what is dynamic
        named = [input_ for input_ in named if not isinstance(input_, DynamicMark)]
    calls = [[numbers.get(name, name) for name in call] for call in program.calls]
    return ProgramSource(
        recipe=program.recipe,
        functions=(*(_of_peer(program.peer) if program.peer else ()), *map(text_of, program.functions())),
        inputs=tuple(line for input_ in named for line in input_.line.splitlines()),
        calls=tuple(f"({', '.join(call)}{',' if len(call) == 1 else ''})" for call in calls),
        imports=program.imports,
        preamble=program.preamble,
        stored=bool(program.stored) or bool(_LOADS.search(program.preamble)),
        arguments=arguments_of(program) if is_entry(program.recipe) else Arguments(),
    )


def _of_peer(peer: Peer) -> Iterator[str]:
    """What other ranks run: the functions, and `peer_inputs`, which makes the arguments of the one call."""
    yield from map(render_function, peer.functions())
    call = ", ".join(peer.calls[0])
    lines = [*(input_.line for input_ in peer.inputs), f"return ({call}{',' if len(peer.calls[0]) == 1 else ''})"]
    yield "def peer_inputs():\n" + textwrap.indent("\n".join(lines), "    ")


def render_program(program: Program, facts: Facts, *, whole: bool = True, rewritten: bool = True) -> dict[str, str]:
    """The texts of `repro.py` and `check.py` for `program`.

    `whole`, `rewritten`: as in `Wanted`; the shorter form, and the one with public names, may not show every failure.
    """
    if not can_be_plain(program.recipe):
        return {REPRO: _of_processes(source_of(program, regions=rewritten), facts), CHECK: render("check_status.py.j2")}
    script = plain_script(program, _wanted(facts, whole=whole, rewritten=rewritten))
    return {REPRO: script.text, CHECK: program_check(script, program.recipe, facts)}


def _wanted(facts: Facts, *, whole: bool, rewritten: bool) -> Wanted:
    """What the text of a program is to show."""
    exceptions = facts.signature.exceptions
    return Wanted(
        facts.signature.kind,
        _difference(facts),
        raises=exceptions[-1] if exceptions else "",
        comment=_comment(facts),
        header=_filled(facts.signature_line, facts.moved) if facts.moved else "",
        whole=whole,
        rewritten=rewritten,
    )


#: What kills a program that corrupts memory differs from run to run.
_OF_MEMORY = "SIGSEGV or SIGABRT"


def _comment(facts: Facts) -> str:
    """How the last line fails, in a few words."""
    policy, signal = facts.signature.kind.policy, facts.signature.signal
    if policy.comment:
        return policy.comment.format(signal=_OF_MEMORY if signal == MEMORY else signal)
    return "" if policy.compared else facts.failure_line


def _difference(facts: Facts) -> Difference | None:
    """The difference that was seen in the run of the program, else in its reduction."""
    seen = facts.failure.difference if facts.failure else None
    return seen or (facts.reduction.difference if facts.reduction else None)


def _of_processes(source: ProgramSource, facts: Facts) -> str:
    """The text for a failure of several ranks, or of compile time that grows: it checks itself."""
    recipe = source.recipe
    ranks = recipe.group is not None and not recipe.group.is_fake
    waits = ranks and facts.signature.kind is Kind.DEADLOCK
    child = ranks or facts.signature.kind.policy.ends_process
    preamble = _close_up(source.preamble.strip("\n"))
    guarded = bool(preamble) and _can_fail(preamble) and _survives_indenting(preamble)
    values = dict(
        pieces(source, facts),
        stdlib=_stdlib(recipe, child=child, paths=source.stored or waits, waits=waits),
        waits=waits,
        config=recipe_code.config_lines(recipe),
        guarded_preamble=preamble if guarded else "",
        preamble="" if guarded else preamble,
        tolerances=recipe_code.tolerances(recipe),
        fullgraph=recipe.fullgraph,
        limit=_limit(facts.signature.kind, waits=waits) if child else None,
    )
    return render("repro.py.j2", **values, header=header(facts))


def _limit(kind: Kind, *, waits: bool) -> int:
    """Seconds after which the child counts as hanging. Ranks that wait are noticed sooner, where the system allows."""
    if not kind.policy.hangs:
        return LIMIT
    return WAITING if waits else HANG


def render_test(program: Program, facts: Facts, name: str, repeats: int = 1) -> str:
    """The program as a test in the form of PyTorch's own suite, called `name`; it runs `repeats` times."""
    suite = "inductor" if facts.layer is Layer.INDUCTOR else "dynamo"
    return render(
        "test_repro.py.j2",
        test=suite_test(program, _wanted(facts, whole=True, rewritten=True)),
        header=header(facts, facts.signature.kind.policy.ending),
        suite=suite,
        owner=f"module: {suite}" if facts.layer in (Layer.INDUCTOR, Layer.DYNAMO) else "oncall: pt2",
        patches=recipe_code.config_patches(program.recipe),
        name=name,
        repeats=repeats,
    )


def pieces(source: ProgramSource, facts: Facts) -> dict[str, Any]:
    """The values for `templates/program.py.j2` and for the script around it."""
    recipe, defined = source.recipe, bound_names(*ast.parse(source.preamble).body)
    names = _free_names(source)
    entry = entry_code(recipe, source.arguments, names, len(source.calls)) if is_entry(recipe) else ""
    compiled = "graph" if recipe.growth is None else "repeated(graph, count)"
    return {
        "env": [(recipe_code.literal(key), recipe_code.literal(value)) for key, value in sorted(recipe.env.items())],
        "imports": _imports(source),
        "process": recipe_code.process_lines(recipe),
        "stored": source.stored,
        "functions": [function.strip("\n") for function in source.functions],
        "inputs": source.inputs,
        "calls": source.calls,
        "names": names,
        "entry": entry,
        "contexts": ", ".join(recipe.contexts),
        "regions": recipe_code.forward_regions(recipe),
        "compiled_autograd": recipe_code.compiled_autograd(recipe, defined),
        "warm": recipe.warm_caches,
        "backward": recipe.backward,
        "complex": bool(re.search(r"complex|\bfft\b|\bcfloat\b|\bcdouble\b", source.text)),
        "seed": recipe_code.seed(recipe),
        "group": recipe_code.group_lines(recipe),
        "ranks": 0 if recipe.group is None or recipe.group.is_fake else recipe.group.size,
        "others": list(recipe.group.others) if recipe.group is not None else [],
        "judged": recipe.group.rank if recipe.group is not None else 0,
        "compared": _compared(source, facts),
        "synchronize": _synchronize(source, facts.signature.kind),
        "validation": recipe.validation,
        "growth": _growth_code(recipe),
        "limit_of_growth": recipe.growth,
        "check": recipe.check or facts.signature.kind is Kind.ACCURACY,
        "compile": names["compile_and_run"] if entry else recipe_code.compile_call(recipe, compiled, defined),
    }


def header(facts: Facts, ending: str = _EXIT_STATUS) -> str:
    """The docstring: what fails, what passes, where the failure was seen, and how the script ends."""
    paragraphs = [
        facts.signature_line,
        f"Fails with: {facts.failure_line}" if facts.failure_line != facts.signature_line else "",
        facts.moved,
        facts.evidence,
        f"Seen with {facts.seen_with}.",
        ending,
    ]
    return _filled(*paragraphs)


def _filled(*paragraphs: str) -> str:
    return "\n\n".join(textwrap.fill(part, _WIDTH, break_on_hyphens=False) for part in paragraphs if part)


def _growth_code(recipe: Recipe) -> str:
    """The code that measures how compile time grows, as the probe runs it; empty for other failures."""
    if recipe.growth is None:
        return ""
    tree = _WithoutTypes().visit(ast.parse(embedded("growth")))
    body = [ast.unparse(node) for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(f"\n\n{text}" if text.startswith(("def ", "class ")) else text for text in body)


class _WithoutTypes(ast.NodeTransformer):
    """Drops annotations, so that the code is short and needs no further imports."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        assert node.value is not None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node


def _stdlib(recipe: Recipe, *, child: bool, paths: bool, waits: bool) -> list[str]:
    modules = {"sys"}
    if waits:
        modules |= {"threading", "time"}
    if child:
        modules |= {"faulthandler", "signal", "subprocess"}
    if recipe.group is not None and not recipe.group.is_fake:
        modules |= {"os", "tempfile"}
    if recipe.growth is not None:
        modules |= {"gc", "math", "signal", "time"}
    if recipe.env or recipe.fullgraph or is_entry(recipe):
        modules.add("os")
    if recipe.backend == PRECOMPILE:
        modules |= {"functools", "tempfile"}
    if paths:
        modules.add("pathlib")
    if recipe.memory:
        modules.add("resource")
    return sorted(modules)


def _imports(source: ProgramSource) -> list[str]:
    used = identifiers(source.text)
    provided = [name for name in _PROVIDED if name in used]
    lines = [f"import {module}" for module in recipe_code.config_imports(source.recipe)]
    if source.recipe.growth is not None:
        lines += ["import torch._inductor.compile_fx", "from torch._inductor.async_compile import AsyncCompile"]
    if provided:
        lines.append(f"from torch import {', '.join(provided)}")
    return [*lines, *recipe_code.group_imports(source.recipe), *source.imports]


def _compared(source: ProgramSource, facts: Facts) -> list[tuple[str, str]]:
    """The (name, expression) pairs to compare: outputs, and whatever else was seen to differ."""
    several = len(source.calls) > 1
    pairs = [("outputs", _COPIED if several and (_replays(source) or _has_buffers(source)) else "outputs")]
    if source.recipe.backward != "none":
        pairs.append(("gradients", "[arg.grad for arg in args if isinstance(arg, torch.Tensor) and arg.is_leaf]"))
    if any(map(_works_in_place, source.functions)) or _differs_in_inputs(facts):
        pairs.append(("inputs", _WITHOUT_BUFFERS if _has_buffers(source) else "args"))
    match facts.signature.difference:
        case "stride":
            pairs.append(("strides", f"[out.stride() {_TENSORS}]"))
        case "requires_grad":
            pairs.append(("requires_grad", f"[out.requires_grad {_TENSORS}]"))
        case "alias":
            pairs.append(("aliases", "aliases(*args, *outputs)"))
    return pairs


def _synchronize(source: ProgramSource, kind: Kind) -> str:
    """The call that waits for the accelerator's kernels, where the failure may be one of theirs."""
    device = _ASYNCHRONOUS.search(source.text) if kind is Kind.RUNTIME_ERROR or kind.policy.ends_process else None
    return f"torch.{device[1]}.synchronize()" if device else ""


def _replays(source: ProgramSource) -> bool:
    """Whether CUDA graphs may run the program: the next call then writes over the outputs of the one before."""
    recipe = source.recipe
    asked = recipe.mode in ("reduce-overhead", "max-autotune") or "cudagraphs" in str(
        {**recipe.options, **recipe.config}
    )
    return asked and "cuda" in source.text


def _has_buffers(source: ProgramSource) -> bool:
    """Whether a module that is exported keeps inputs as its own buffers: it writes to copies of these."""
    return is_entry(source.recipe) and any("torch.nn.Buffer(" in line for line in source.inputs)


def _works_in_place(function: str) -> bool:
    """Whether the text of a function modifies values in place, flags and running means excepted."""
    augmented = any(isinstance(node, ast.AugAssign) for node in ast.walk(ast.parse(function)))
    return augmented or bool(_IN_PLACE.search(function))


def _differs_in_inputs(facts: Facts) -> bool:
    """Whether an input was seen to differ after the call."""
    difference = _difference(facts)
    return difference is not None and difference.place == ARGUMENT


def _free_names(source: ProgramSource) -> dict[str, str]:
    """Names for the script's own functions that clash with no other name at its top level."""
    taken = global_names(source.preamble, source.functions, [*source.inputs, *source.calls, *source.recipe.contexts])
    wanted = {
        "inputs": "inputs" if len(source.calls) == 1 else "calls",
        **{name: name for name in _OWN},
        "module": "Module",
    }
    return {key: name if name not in taken else f"repro_{name}" for key, name in wanted.items()}


def _close_up(preamble: str) -> str:
    """The preamble without runs of blank lines outside of strings."""
    closed = re.sub(r"\n{4,}", "\n\n\n", preamble)
    return closed if _dumped(ast.parse(closed).body) == _dumped(ast.parse(preamble).body) else preamble


def _can_fail(preamble: str) -> bool:
    """Whether executing the preamble does more than define plain functions and classes."""
    plain = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    return any(not isinstance(node, plain) or node.decorator_list for node in ast.parse(preamble).body)


def _survives_indenting(preamble: str) -> bool:
    """Whether the preamble keeps its meaning below a ``try:``; strings of several lines may not."""
    indented = "try:\n" + textwrap.indent(preamble, "    ") + "\nfinally:\n    pass"
    try:
        (block,) = ast.parse(indented).body
    except SyntaxError:
        return False
    body: Sequence[ast.stmt] = block.body if isinstance(block, ast.Try) else ()
    return _dumped(body) == _dumped(ast.parse(preamble).body)


def _dumped(nodes: Iterable[ast.stmt]) -> list[str]:
    return [ast.dump(node) for node in nodes]
