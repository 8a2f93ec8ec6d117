"""What a torch may lack, and what repro-kit then cannot say. Each feature is asked for; no version is compared."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """A part of torch, as ``module:attribute``, that `command` uses; `without` says what is missing without it."""

    command: str
    name: str
    without: str


FEATURES = (
    Feature(
        "observe",
        "torch._C:_distributed_c10d._dump_fr_trace",
        "of several ranks only the compiles are compared: this torch has no flight recorder for gloo's collectives",
    ),
    Feature(
        "ablate",
        "torch._inductor.compiler_bisector:CompilerBisector",
        "the layer is named, but not the lowering, pass or decomposition in it: this torch has no CompilerBisector",
    ),
    Feature(
        "ablate",
        "torch._dynamo.eval_frame:_callback_from_stance",
        "it is not tried whether compiling afresh for every call helps: this torch has no stances",
    ),
    Feature(
        "bundle",
        "torch._dynamo.compiled_autograd:_enable",
        "`repro.py` cannot switch compiled autograd on: this torch has it under another name",
    ),
)

_ASK = """
import importlib, json, sys
def has(name):
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True
print(json.dumps([name for name in sys.argv[1:] if not has(name)]))
"""


def lacking(python: str) -> list[Feature]:
    """The features that the torch of interpreter `python` lacks."""
    names = [feature.name for feature in FEATURES]
    answer = subprocess.run([python, "-c", _ASK, *names], capture_output=True, text=True, check=True)
    missing = json.loads(answer.stdout.splitlines()[-1])
    return [feature for feature in FEATURES if feature.name in missing]
