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
    """All scripts in order. Forward and backward of a graph share a compile id; the forward comes first.

    A body that a script lacks is taken from the next printed graph, else from any other one of the same compile
    whose parameters are those of the script.
    """

    scripts: list[Runnable] = field(default_factory=list)
    graphs: dict[tuple[str, int | None], list[str]] = field(default_factory=dict)  # with bodies, before the script

    def see(self, record: Record) -> None:
        """Keep an `fx_graph_runnable` artifact; repair it when a graph shows the bodies."""
        key = (record.compile_id or "-", record.rank)
        name = record.name
        if not record.payload:
            return
        if name == "fx_graph_runnable" and record.intact:
            text, _ = repaired(record.payload, {})
            for graph in self.graphs.get(key, ()):
                text = _completed(text, graph)
            self.scripts.append(Runnable(key[0], text, record.rank, record.attempt, record.file))
        elif name == "before_post_grad_graph":
            self._mend(key, record.payload)
        elif name.endswith("_graph") and name != _OF_DYNAMO and record.payload.count("class ") > 1:
            self.graphs.setdefault(key, []).append(record.payload)
            for at, script in enumerate(self.scripts):
                if (script.compile_id, script.rank) == key:
                    self.scripts[at] = replace(script, text=_completed(script.text, record.payload))

    def _mend(self, key: tuple[str, int | None], graph: str) -> None:
        for at in reversed(range(len(self.scripts))):
            runnable = self.scripts[at]
            if (runnable.compile_id, runnable.rank) == key:
                self.scripts[at] = replace(runnable, text=repaired(runnable.text, bodies_in(graph))[0])
                return


_OF_DYNAMO = "dynamo_output_graph"  # its operators are torch's, and its names others
_FORWARD = re.compile(r"def forward\(self,?(?P<parameters>[^)]*)\)")
_LEFT_OUT = re.compile(r"^\s+self\.\w+ = (?:<\w+>|GraphModule)\(\)\s*$", re.MULTILINE)


def _completed(text: str, graph: str) -> str:
    """The script `text` with the bodies of `graph`, if it lacks some and the two have the same parameters."""
    script = text[text.rfind("class Repro") :]
    if not _LEFT_OUT.search(script) or _parameters(script) != _parameters(graph):
        return text
    return repaired(text, bodies_in(graph))[0]


def _parameters(text: str) -> list[str]:
    """The names of the parameters of the first ``forward`` in `text`."""
    found = _FORWARD.search(text)
    return re.findall(r"(\w+)(?=\s*(?::|,|$))", re.sub(r'"[^"]*"', "", found["parameters"])) if found else []


def artifacts(records: Iterable[Record]) -> list[Runnable]:
    """Every `fx_graph_runnable` of a trace, in order."""
    return ask(Runnables(), records).scripts
