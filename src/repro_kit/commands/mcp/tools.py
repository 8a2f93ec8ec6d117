"""What an MCP client can call and read: the tools as data, and the bundles of the current directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.commands.mcp.consent import inside
from repro_kit.errors import UsageError
from repro_kit.files import read_plain
from repro_kit.options.commands import options_for
from repro_kit.options.declare import Option
from repro_kit.repro_run.untrusted import REPRO

#: The parts of a story that are files of a bundle of their own, each with a schema; the story itself is the rest.
STORY_PARTS = ("story", "environment", "ablation")
_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_PLACES = ("output", "farm", "wheels")


@dataclass(frozen=True)
class CommandTool:
    """A command as a tool. `runs`: it runs code that its target holds, and so it needs consent."""

    name: str
    command: tuple[str, ...]
    description: str
    target: str = ""  # what the target is; "" for a tool without one
    takes_words: bool = False  # further words go to the user's script
    takes_text: bool = False  # the script may come from the text of an issue
    runs: bool = True
    result: str = ""  # the schema of the result; "": any object

    @property
    def options(self) -> dict[str, Option]:
        """The options of the command that the tool has, by the names of its arguments."""
        taken = options_for(" ".join(word for word in self.command if not word.startswith("-")))
        return {each.long.replace("-", "_"): each for each in taken if each.agents}

    @property
    def places(self) -> tuple[str, ...]:
        """The arguments that name what the tool reads, or where it writes."""
        return ("target", *(name for name in _PLACES if name in self.options))

    @property
    def usual_places(self) -> tuple[str, ...]:
        """Those of `places` that a command uses by their own names, if they are not given."""
        return ("farm",) if "farm" in self.options else ()

    @property
    def inputs(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        properties = {name: _schema(option) for name, option in self.options.items()}
        if self.target:
            properties["target"] = {**_STRING, "minLength": 1, "description": self.target}
        if self.takes_words:
            properties["args"] = {**_STRINGS, "description": "Arguments of the script."}
        if self.takes_text:
            about = (
                "The text of an issue, in place of a target. Its program is written to a file and run, and the answer "
                "says whether it fails as the text reports."
            )
            properties["text"] = {**_STRING, "description": about}
        if self.runs:
            about = "The consent that an earlier refusal asked for. Clients with elicitation are asked instead."
            properties["consent"] = {**_STRING, "description": about}
        required = ["target"] if self.target and not self.takes_text else []
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    @property
    def output(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        properties: dict[str, Any] = {"exit": {"type": "integer", "description": "The exit code of the command."}}
        if self.result == "story":
            properties |= {name: schema_of(name) for name in STORY_PARTS}
        if self.result == "manifest":
            properties["manifest"] = {"anyOf": [schema_of("manifest"), {"type": "null"}]}
        if self.result == "table":
            properties["lines"] = {"type": "array", "items": _TABLE}
        return {"type": "object", "properties": properties, "required": ["exit"]}

    def words(self, arguments: Mapping[str, Any]) -> list[str]:
        """The command line. Values are bound to their options, so that none is taken for another option."""
        words = [*self.command, "--json", *(["--yes"] if self.runs else [])]
        for name, option in self.options.items():
            value = arguments.get(name)
            if value is True:
                words.append(f"--{option.long}")
            elif value not in (None, False):
                words += [f"--{option.long}={each}" for each in (value if isinstance(value, list) else [value])]
        if self.target and "target" in arguments:
            words.append(str(Path(arguments["target"]).absolute()))
        return [*words, *arguments.get("args", ())]


def _schema(option: Option) -> dict[str, Any]:
    """The JSON Schema of the values that an option takes; several go into an array."""
    numbers: dict[Any, dict[str, Any]] = {bool: {"type": "boolean"}, float: {"type": "number", "exclusiveMinimum": 0}}
    one: dict[str, Any] = numbers.get(option.kind, _STRING)
    if option.kind is int:
        one = {"type": "integer", "minimum": option.least}
    if option.choices:
        one = {"enum": list(option.choices)}
    several = {"anyOf": [one, {"type": "array", "items": one}]}
    return {**(several if option.many else one), "description": option.text}


_VERDICT = {
    "type": "object",
    "properties": {
        "build": _STRING,
        "outcome": _STRING,
        "failed": {"type": "integer"},
        "passed": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "seconds": {"type": "number"},
    },
    "required": ["build", "outcome", "failed", "passed"],
}
#: The table of `verify` over builds; see `regressions/lifecycle.py`.
_TABLE = {
    "type": "object",
    "properties": {
        "line": _STRING,
        "sentence": _STRING,
        "confidence": {"type": "number"},
        "builds": {"type": "array", "items": _VERDICT},
        "flips": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["line", "sentence", "confidence", "builds", "flips"],
}

_BUNDLE = "Path of a bundle, a case or a repro.py."

TOOLS: Mapping[str, CommandTool] = {
    tool.name: tool
    for tool in (
        CommandTool(
            "collect",
            ("collect", "--trace=no"),
            "Run a failing torch.compile script, and make a verified, minimal bundle of its failure. May take minutes.",
            "Path of the Python script, or of the text of an issue (a Markdown file).",
            takes_words=True,
            takes_text=True,
            result="manifest",
        ),
        CommandTool(
            "explain",
            ("explain",),
            "Run a script, and explain what torch compiled, why graphs broke or were recompiled, and what helps.",
            "Path of a script, of a TORCH_TRACE log, or of a case.",
            takes_words=True,
        ),
        CommandTool(
            "verify",
            ("verify",),
            "Run a bundle, and check whether it still fails; with `on` or `releases` on several builds, as a table.",
            _BUNDLE,
            result="table",
        ),
        CommandTool(
            "bisect",
            ("bisect",),
            "Find the build of torch with which a bundle began to fail, or was fixed.",
            _BUNDLE,
        ),
        CommandTool(
            "show",
            ("show",),
            "Show the failure of a bundle or case, the layer at fault, the reproducer, and what passes. Runs nothing.",
            "Path of a bundle or a case.",
            runs=False,
            result="story",
        ),
        CommandTool(
            "farm_status",
            ("farm", "status"),
            "Show the states of the cases of a farm: open, fixed, closed, reopened, flaky … Runs nothing.",
            runs=False,
        ),
    )
}


@cache
def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of a file of a bundle."""
    text = (files("repro_kit") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def named_tool(name: str) -> CommandTool:
    """The tool with this name. Raises UsageError."""
    if name not in TOOLS:
        raise UsageError(f"There is no tool {name}; there are {', '.join(TOOLS)}.")
    return TOOLS[name]


SCHEME = "repro-kit://bundle/"
TEMPLATE = f"{SCHEME}{{name}}"
_FILES = {
    MANIFEST: "application/json",
    "story.json": "application/json",
    "issue.md": "text/markdown",
    REPRO: "text/x-python",
}


def bundles(directory: Path, roots: Sequence[Path]) -> list[str]:
    """The names of the bundles in `directory`: archives, and cases whose bundle has no archive there.

    None if `directory` lies outside of `roots`; a link that leads out of them is no bundle.
    """
    if not is_inside(directory, roots):
        return []
    return [path.name for path in sorted(directory.iterdir()) if _is_bundle(path, roots)]


def is_inside(path: Path, roots: Sequence[Path]) -> bool:
    """Whether `path` is a file or a directory within `roots`."""
    try:
        return bool(inside(path, roots))
    except UsageError:
        return False


def _is_bundle(path: Path, roots: Sequence[Path]) -> bool:
    manifest = path / "bundle" / MANIFEST
    if manifest.is_file():
        packed = any(path.with_name(path.name + form).is_file() for form in archive.FORMS)
        return not packed and is_inside(manifest, roots)
    return path.is_file() and path.name.endswith(archive.FORMS) and is_inside(path, roots)


def uri_of(name: str) -> str:
    """The URI of a bundle."""
    return f"{SCHEME}{quote(name, safe='')}"


def contents(uri: str, directory: Path, roots: Sequence[Path]) -> list[tuple[str, str, str]]:
    """The files of a bundle: URI, media type, text. Raises ReproKitError if the bundle does not exist."""
    name = unquote(uri.removeprefix(SCHEME))
    names = bundles(directory, roots)
    if not uri.startswith(SCHEME) or name not in names:
        raise UsageError(f"{uri} is not a bundle in {directory}; there are {', '.join(names) or 'none'}.")
    path = directory / name
    if path.is_dir():
        there = [file for file in _FILES if (path / "bundle" / file).is_file()]
        for file in there:
            inside(path / "bundle" / file, roots)
        data = {file: read_plain(path / "bundle" / file, archive.LARGEST_SHOWN) for file in there}
    else:
        data = archive.read(path, lambda member: member in _FILES)
    return [
        (f"{uri_of(name)}#{file}", _FILES[file], data[file].decode("utf-8", "replace"))
        for file in _FILES
        if file in data
    ]
