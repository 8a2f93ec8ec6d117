"""Record the applications of the compiler's subsystems (torch/_inductor/compiler_bisector.py), or switch some off."""

from __future__ import annotations

import collections
import json
import os
from typing import Any

from repro_probe.protocol.findings import APPLIED
from repro_probe.protocol.orders import Switch
from repro_probe.protocol.queries import Application


def switch_off(switch: Switch, path: str) -> None:
    """Make CompilerBisector switch off the applications in `switch`, and write each application to the file `path`.

    A switch is ``{}``, which only records, or has ``backend``, ``subsystem`` and one of ``last``, ``without`` and
    ``only``. With ``last``, applications after this number are off, as with TORCH_BISECT_MAX. ``without`` and
    ``only`` are lists of numbers. Applications count from 0.
    """
    from torch._inductor import compiler_bisector

    bisector = compiler_bisector.CompilerBisector
    bisector.bisection_enabled = True  # makes torch bypass the graph cache, as its own bisection does
    wanted = (switch.get("backend"), switch.get("subsystem"))
    numbers: collections.Counter[tuple[str, str]] = collections.Counter()
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the process ends

    def disable_subsystem(backend: str, subsystem: str, debug_info: Any = None) -> bool:
        if wanted not in ((None, None), (backend, subsystem)):
            return False
        number = numbers[backend, subsystem]
        numbers[backend, subsystem] += 1
        # The line is flushed now, since the process may crash in the next step.
        file.write(json.dumps([backend, subsystem, *_described(debug_info)]) + "\n")
        file.flush()
        return _is_off(switch, number)

    bisector.disable_subsystem = staticmethod(disable_subsystem)


def read_applications(directory: str) -> list[Application] | None:
    """Return the applications that were recorded in `directory`."""
    try:
        with open(os.path.join(directory, APPLIED), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return None


def _is_off(switch: Switch, number: int) -> bool:
    if "last" in switch:
        return number > switch["last"]
    if "only" in switch:
        return number not in switch["only"]
    return number in switch.get("without", ())


def _described(debug_info: Any) -> tuple[str, str]:
    """Return (name, user's line) of an application. The name is an operator where there is one, else torch's text."""
    if debug_info is None:
        return "", ""
    for cell in debug_info.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # empty
            continue
        if type(value).__name__ == "Node":
            return str(value.target), _last_line(value.meta.get("stack_trace"))
        if type(value).__name__ == "OpOverload":
            return str(value), ""
    return str(debug_info()), ""


def _last_line(stack: str | None) -> str:
    """Return the innermost frame of `stack`, FX's text for a node, as ``model.py:12: y = x.relu()``."""
    lines = [line.strip() for line in (stack or "").splitlines() if line.strip()]
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith("File "):
            file, _, rest = lines[at][len("File ") :].partition(", line ")
            number = rest.partition(",")[0]
            code = lines[at + 1] if at + 1 < len(lines) else ""
            return "{}:{}: {}".format(os.path.basename(file.strip('"')), number, code)
    return ""
