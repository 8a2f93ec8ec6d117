"""The user's functions that a failure may come from, the likeliest first: candidates to leave to eager."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.failure.failure import Failure, Kind
from repro_kit.model.failure.frames import torch_path
from repro_kit.trace.user_code import UserCode


@dataclass(frozen=True)
class UserFunction:
    """A function as its code object names it. `whole`: it is a whole frame that torch.compile got, not a part."""

    name: str
    file: str
    line: int
    whole: bool = False


def suspects(failure: Failure, code: UserCode) -> list[UserFunction]:
    """The functions whose compiled code may fail, innermost and likeliest first, then the frames around them."""
    inner = [*_of_breaks(failure, code), *_of_traceback(failure), *_of_graphs(failure, code)]
    frames = _frames(failure, code)
    functions: dict[tuple[str, str, int], UserFunction] = {}
    whole = {(frame.name, frame.file, frame.line) for frame in frames}
    for function in (*inner, *frames):
        key = (function.name, function.file, function.line)
        functions.setdefault(key, UserFunction(*key, whole=key in whole))
    users_own = [function for function in functions.values() if not torch_path(function.file)]
    return sorted(users_own, key=lambda function: function.whole)


def _of_breaks(failure: Failure, code: UserCode) -> Iterator[UserFunction]:
    if failure.kind is Kind.GRAPH_BREAKS:
        for file, line in code.breaks:
            yield from _around(file, line)


def _of_traceback(failure: Failure) -> Iterator[UserFunction]:
    """The functions that the exception messages name, innermost first."""
    for link in reversed(failure.exceptions):
        stated = re.findall(r'^\s*File "(.+)", line (\d+), in ', link.message, re.MULTILINE)
        for file, line in reversed(stated):
            yield from _around(file, int(line))


def _of_graphs(failure: Failure, code: UserCode) -> Iterator[UserFunction]:
    """The functions of the failing graph's statements; those with the operator of the failure come first."""
    if failure.measured is not None:
        return
    origins = [origin for origin in code.origins if failure.compile_id in (None, origin.compile_id)]
    words = [
        re.escape(word.split(".")[1] if "." in word else word) for word in (failure.op or "", *failure.origins) if word
    ]
    named_words = re.compile("|".join(rf"(?<![a-z]){word}(?![a-z])" for word in words)) if words else None
    named = [origin for origin in origins if named_words is not None and named_words.search(origin.statement)]
    for origin in (*named, *reversed(origins)):
        yield from _around(origin.file, origin.line)


def _frames(failure: Failure, code: UserCode) -> list[UserFunction]:
    """The frames that Dynamo compiled: the failing one, or those that recompile most or take longest."""
    frames = [frame for frame in code.frames if failure.compile_id in (None, frame.compile_id)]
    weights: Counter[UserFunction] = Counter()
    for frame in frames:
        weight = 1 if failure.kind is Kind.RECOMPILES else round(frame.seconds * 1e3)
        weights[UserFunction(frame.name, frame.file, frame.first_line)] += weight
    if failure.kind in (Kind.RECOMPILES, Kind.COMPILE_TIME):
        return [frame for frame, _ in weights.most_common()]
    return list(weights)


def _around(file: str, line: int) -> Iterator[UserFunction]:
    """The innermost function definition around a line; nothing if the file cannot be parsed."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    holding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if holding:
        node = max(holding, key=lambda node: node.lineno)
        yield UserFunction(
            node.name, file, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        )
