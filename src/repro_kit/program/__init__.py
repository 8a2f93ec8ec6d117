"""One tensor graph as straight-line Python: parse, render and edit it. The package works on text, without torch."""

from repro_kit.program.inputs import Data, DynamicMark, Input, OpaqueInput, ScalarInput, Strided, TensorInput
from repro_kit.program.parsing import parse
from repro_kit.program.program import Function, Peer, Program, size, without_marks
from repro_kit.program.rendering import render
from repro_kit.program.statement import Statement

__all__ = [
    "Data",
    "DynamicMark",
    "Function",
    "Input",
    "OpaqueInput",
    "Peer",
    "Program",
    "ScalarInput",
    "Statement",
    "Strided",
    "TensorInput",
    "parse",
    "render",
    "size",
    "without_marks",
]
