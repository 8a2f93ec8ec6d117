"""Texts of small programs. Most use a backend of their own that spoils the result: quick, and real."""

from collections.abc import Mapping
from typing import Any

X = "torch.arange(12.).reshape(3, 4)"


def program(
    body: str = "y = x + 1\nreturn (y,)",
    calls: str = f"x = {X}\nreturn [(x,)]",
    preamble: str = "",
    parameters: str = "x",
    **recipe: Any,
) -> str:
    return "\n".join(
        [
            "# repro-kit program 1",
            "import torch",
            f"RECIPE = {_with_backend(recipe, preamble)!r}",
            preamble,
            f"def graph({parameters}):",
            _indent(body),
            "def calls():",
            _indent(calls),
            "",
        ]
    )


def spoiling(expression: str, **more: Any) -> str:
    """A program whose backend returns `expression` (of `out`, the right first output, and `args`) instead."""
    preamble = (
        "def mine(gm, example_inputs):\n"
        "    def run(*args):\n"
        "        out = gm(*args)[0]\n"
        f"        return ({expression},)\n"
        "    return run\n"
    )
    return program(preamble=preamble + more.pop("preamble", ""), **more)


def failing_backend(statement: str, **more: Any) -> str:
    """A program whose backend does `statement` instead of compiling."""
    preamble = f"import os, signal\ndef mine(gm, example_inputs):\n    {statement}\n    return gm\n"
    return program(preamble=preamble + more.pop("preamble", ""), **more)


def _with_backend(recipe: Mapping[str, Any], preamble: str) -> dict[str, Any]:
    return {"backend": "mine" if "def mine(" in preamble else "eager", **recipe}


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
