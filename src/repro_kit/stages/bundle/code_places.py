"""The places of a failure in code: which to look up in torch's source, and the lines of the user's file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.repro.program_repro import REPRO
from repro_kit.bundle.repro.source_files import PLACE, source_text
from repro_kit.bundle.story.constructs import makes_tensors
from repro_kit.bundle.story.story import Excerpt
from repro_kit.diagnosis.answers import TorchSource
from repro_kit.diagnosis.evidence import Chain, Link
from repro_kit.failure.failure import Failure, Frame, Layer
from repro_kit.failure.frames import is_compiler, is_generated, telling_frame, torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.tracebacks import is_final
from repro_kit.files import read_text
from repro_kit.probe.repro_probe.protocol.queries import PlaceAsked, PlaceKind, SourceData
from repro_kit.stages.bundle.forms import ReproForm

#: Where Dynamo's handlers have what they raise made for them; the handler is what needs a change.
_RAISES_FOR_ALL = re.compile(r"torch/_dynamo/(?:exc|variables/base)\.py$")
_MOST = 6  # places that are looked up
_REPOSITORY = "https://github.com/pytorch/pytorch/blob"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: An operator or pass in a link of the chain: ``#17 aten.index_put.default``; a range of them names none.
_APPLICATION = re.compile(r"#\d+ (?P<name>[\w.]+)")
#: What torch applies one by one, by the name of the subsystem (torch/_inductor/compiler_bisector.py).
_KINDS: dict[str, PlaceKind] = {"lowerings": "lowering", "decomposition": "decomposition"}
#: Where a part of a layer is (diagnosis/causes.py); a part that many files share is absent.
_PARTS = {
    "side-effects": "torch._dynamo.side_effects:SideEffects",
    "guards": "torch._dynamo.guards:GuardBuilder",
    "partitioner": "torch._functorch.partitioners:min_cut_rematerialization_partition",
    "graph-cache": "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache",
}


def asked_places(form: ReproForm) -> list[PlaceAsked]:
    """The places that follow from the layer at fault, its part and its operator; empty if none does."""
    layer, ablation = form.facts.layer, form.facts.ablation
    if ablation is None or layer in (None, Layer.USER, Layer.BACKEND):
        return []
    return list(_asked(form, ablation.cause, ablation.chain))[:_MOST]


def _asked(form: ReproForm, cause: str, chain: Chain | None) -> Iterator[PlaceAsked]:
    found = operator_of(chain)
    if found is not None:
        subsystem, name = found
        if subsystem.endswith("_passes"):
            yield {"kind": "pass", "name": f"{subsystem}:{name}"}
            return
        if subsystem in _KINDS:
            yield {"kind": _KINDS[subsystem], "name": name}
            return
    if cause in _PARTS:
        yield {"kind": "object", "name": _PARTS[cause]}
    if form.facts.layer is Layer.DYNAMO and form.facts.signature.kind is not Kind.DYNAMO_ERROR:  # the error tells
        for name in _functions(form):
            yield {"kind": "handler", "name": name}
    elif cause == "decomposition" and form.program is not None:
        for name in bare_operators(form):
            yield {"kind": "python-kernel", "name": name}


def bare_operators(form: ReproForm) -> list[str]:
    """The names of the functions and methods that the reduced graph calls, as aten names operators."""
    return list(dict.fromkeys(name.rpartition(".")[2] for name in _called(form)))


def operator_of(chain: Chain | None) -> tuple[str, str] | None:
    """(subsystem, operator or pass) that the chain of evidence ends with; None if it names none for certain."""
    if chain is None:
        return None
    main = [link for link in chain.links if not link.beside]
    subsystem = next((link.culprit for link in reversed(main) if link.step == "subsystem"), "")
    named = next(filter(None, map(_application, reversed(main))), "")
    return (subsystem, named) if subsystem and named else None


def _application(link: Link) -> str:
    found = _APPLICATION.fullmatch(link.culprit) if link.step == "op" else None
    return found["name"] if found else ""


def _functions(form: ReproForm) -> list[str]:
    """The functions of torch that the reduced program or script calls by their full names, but for its inputs."""
    own = ("torch.compile", "torch.testing.", "torch.manual_seed", "torch.ops.")
    named = [name for name in _called(form) if name.startswith("torch.") and not name.startswith(own)]
    return [name for name in named if not makes_tensors(name)]


def _called(form: ReproForm) -> list[str]:
    """What the reduced program or script calls, each once: ``torch.relu``, ``x.add_``."""
    if form.program is not None:
        statements = (statement for function in form.program.functions() for statement in function.statements)
        trees: list[ast.AST] = [statement.node for statement in statements]
    elif form.path is not None and form.reduced:
        trees = [_parsed(form.path)]
    else:
        return []
    calls = (node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return list(dict.fromkeys(ast.unparse(function) for function in calls if isinstance(function, ast.Attribute)))


def _parsed(path: Path) -> ast.AST:
    try:
        return ast.parse(read_text(path))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _raising(failure: Failure, frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame, where the compiler's own runtime raises; it does not tell two failures apart."""
    last = frames[-1] if frames and failure.exceptions else None
    return last if last is not None and is_compiler(last) and not is_generated(last) else None


def of_own_code(failure: Failure | None) -> Iterator[TorchSource]:
    """The line of `repro.py` at which a function that the program defines raised."""
    for link in reversed(failure.exceptions if failure else ()):
        own = [frame for frame in link.frames if Path(frame.file).name == REPRO and frame.function != "<module>"]
        if own:
            yield TorchSource("where the program's own code raises", REPRO, own[-1].line, own[-1].function)
            return


def of_error(failure: Failure | None, commit: str | None) -> Iterator[TorchSource]:
    """Where in torch the error was raised, or what ran when the process was killed; nothing for a native compiler's."""
    if failure is None or any(is_final(link) for link in failure.exceptions[-1:]):
        return
    for frames in [link.frames for link in reversed(failure.exceptions)] or [failure.stack]:
        called = [frame for frame in frames if not _RAISES_FOR_ALL.search(torch_path(frame.file) or "")]
        frame = telling_frame(called, of_hang=not failure.exceptions) or _raising(failure, frames)
        if frame is not None:
            what = "where the error is raised" if failure.exceptions else "what was running"
            file = torch_path(frame.file) or ""
            yield TorchSource(what, file, frame.line, frame.function, link_to(file, frame.line, commit))
            return


def of_source(found: SourceData, commit: str | None) -> TorchSource:
    """A place that the probe has found, with its link."""
    link = link_to(found["file"], found["line"], commit)
    return TorchSource(found["what"], found["file"], found["line"], found["function"], link)


def link_to(file: str, line: int, commit: str | None) -> str:
    """The line on GitHub; "" for a file that is not in PyTorch's repository, or without a commit."""
    is_there = file.startswith(("torch/", "functorch/")) and bool(_COMMIT.fullmatch(commit or "")) and line > 0
    return f"{_REPOSITORY}/{commit}/{file}#L{line}" if is_there else ""


_AROUND = 5  # lines before and after
_PLACE = re.compile(r'File "(?P<file>(?:(?!\n *File ").)+?)", line (?P<line>\d+)', re.DOTALL)


def excerpt_of(failure: Failure | None, sources: Mapping[str, Path], contents: Contents) -> Excerpt | None:
    """The excerpt, redacted as in `contents`; None if no source of the user's is seen in `failure` or packed.

    `sources`: the user's files by their names below `PLACE`.
    """
    names = {str(path): name for name, path in sources.items()}
    for file, line in places_in(failure) if failure else ():
        name = names.get(file)
        packed = contents.redactor.file_name(f"{PLACE}/{name}")
        entry = contents.entries.get(packed)
        if name is None or entry is None:
            continue
        lines = entry.data.decode().splitlines()
        # What was replaced may have had several lines, so that the numbers no longer hold.
        if len(lines) == len(source_text(sources[name]).splitlines()) and 0 < line <= len(lines):
            first = max(line - 1 - _AROUND, 0)
            return Excerpt(packed, line, "\n".join(lines[first : line + _AROUND]))
    return None


def places_in(failure: Failure) -> Iterator[tuple[str, int]]:
    """The (file, line) pairs in a failure, the likeliest first: Dynamo quotes the user's code in its message."""
    for exception in reversed(failure.exceptions):
        yield from reversed([(match["file"], int(match["line"])) for match in _PLACE.finditer(exception.message)])
        yield from ((frame.file, frame.line) for frame in reversed(exception.frames))
    yield from ((frame.file, frame.line) for frame in reversed(failure.stack))
    yield from reversed([(match["file"], int(match["line"])) for match in _PLACE.finditer(failure.text)])
