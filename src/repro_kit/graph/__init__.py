"""One tensor graph as straight-line Python: parse, render and edit it. The package works on text, without torch."""

from repro_kit.graph.inputs import Data, DynamicMark, Input, OpaqueInput, ScalarInput, Strided, TensorInput
from repro_kit.graph.program import Function, Peer, Program, Statement, size, without_marks
from repro_kit.graph.program_text import parse, render

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
