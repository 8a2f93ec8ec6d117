"""The `fx_graph_runnable` scripts of a trace, and their repair."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from repro_kit.trace.record import Record, ask

#: Variables that point to files of the original run, add log output, or may be private.
_DROPPED = re.compile(
    r"TRACE|LOGS|CACHE_DIR|DEBUG|_DIR$|JOB_ID|PROFILE|REPRO|TOKEN|SECRET|PASSW|CREDENTIAL|(?:^|_)KEY(?:$|_)|PROBE"
)
_ENVIRON = re.compile(r"^os\.environ\['(?P<name>[^']+)'\] = .*$")
_BODY = re.compile(r"^(?P<head>\s+self\.(?P<name>\w+) = )(?:<\w+>|\w+)\(\)\s*$")


def repaired(text: str, bodies: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The script with `bodies` (source of classes, by attribute) filled in, and notes on the repairs."""
    notes: list[str] = []
    lines: list[str] = []
    needed: list[str] = []
    missing: list[str] = []
    dropped: list[str] = []
    for line in text.split("\n"):
        environ, body = _ENVIRON.match(line), _BODY.match(line)
        if environ and _DROPPED.search(environ["name"]):
            dropped.append(environ["name"])
        elif body and body["name"] in bodies:
            needed.append(body["name"])
            lines.append(f"{body['head']}{_class_name(body['name'])}()")
        else:
            if body and "<" in line:
                missing.append(body["name"])
            lines.append(line)
    if dropped:
        notes.append(f"without {', '.join(dropped)} of the original run")
    if needed:
        at = next((at for at, line in enumerate(lines) if line.startswith("class Repro")), 0)
        lines[at:at] = [line for name in needed for line in (*bodies[name].split("\n"), "")]
        notes.append(f"with the bodies {', '.join(needed)}")
    if missing:
        notes.append(f"does not run: the trace lacks the bodies {', '.join(missing)}")
    return "\n".join(lines), tuple(notes)


def bodies_in(graph: str) -> dict[str, str]:
    """The bodies in a printed graph, each as self-contained classes; empty if the graph cannot be parsed."""
    start = graph.find("class ")
    try:
        tree = ast.parse(re.sub(r"class <\w+>\(", "class Graph(", graph[start:])) if start >= 0 else None
    except SyntaxError:
        return {}
    if tree is None or not isinstance(tree.body[0], ast.ClassDef):
        return {}
    return {
        inner_class.name: "\n\n".join(_hoisted(inner_class, ""))
        for inner_class in tree.body[0].body
        if isinstance(inner_class, ast.ClassDef)
    }


def _hoisted(node: ast.ClassDef, prefix: str) -> Iterator[str]:
    """`node` and its inner classes, innermost first, each at the top level under its own name."""
    inner = [inner_class for inner_class in node.body if isinstance(inner_class, ast.ClassDef)]
    name = _class_name(node.name, prefix)
    init = "def __init__(self):\n    super().__init__()\n"
    init += "".join(f"    self.{inner_class.name} = {_class_name(inner_class.name, name)}()\n" for inner_class in inner)
    for inner_class in inner:
        yield from _hoisted(inner_class, name)
    node.name = name
    node.body = [
        *ast.parse(init).body,
        *(inner_class for inner_class in node.body if not isinstance(inner_class, ast.ClassDef)),
    ]
    yield ast.unparse(node)


def _class_name(attribute: str, prefix: str = "") -> str:
    return f"{prefix}_{attribute}" if prefix else f"Body_{attribute}"


@dataclass(frozen=True)
class Runnable:
    """A script that Inductor wrote for a graph before compiling it (after AOTAutograd)."""

    compile_id: str
    text: str
    rank: int | None = None
    attempt: int = 0
    log: str = ""  # name of the log that holds it


@dataclass
class Runnables:
    """All scripts in order. Forward and backward of a graph share a compile id; the forward comes first."""

    scripts: list[Runnable] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Keep an `fx_graph_runnable` artifact; repair it when its graph shows the bodies."""
        if record.name == "fx_graph_runnable" and record.payload and record.intact:
            text, _ = repaired(record.payload, {})
            self.scripts.append(Runnable(record.compile_id or "-", text, record.rank, record.attempt, record.file))
        elif record.name == "before_post_grad_graph" and record.payload:
            self._mend(record.compile_id or "-", record.rank, record.payload)

    def _mend(self, compile_id: str, rank: int | None, graph: str) -> None:
        for at in reversed(range(len(self.scripts))):
            runnable = self.scripts[at]
            if (runnable.compile_id, runnable.rank) == (compile_id, rank):
                self.scripts[at] = replace(runnable, text=repaired(runnable.text, bodies_in(graph))[0])
                return


def artifacts(records: Iterable[Record]) -> list[Runnable]:
    """Every `fx_graph_runnable` of a trace, in order."""
    return ask(Runnables(), records).scripts
