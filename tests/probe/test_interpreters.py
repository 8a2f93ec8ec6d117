"""The probe on each Python that is at hand: its modules can be imported, from the oldest that users have on."""

from __future__ import annotations

import json
import subprocess

import pytest
from compatibility.pythons import find_version

from repro_kit.runner.supervised import PROBE

#: Import every module, and print what failed. A module that needs torch gets as far as its first import of torch.
IMPORT_ALL = """
import importlib, json, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root))
failed = {}
for file in sorted((root / "repro_probe").rglob("*.py")):
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    compile(file.read_bytes(), str(file), "exec")
    try:
        importlib.import_module(name)
    except Exception as error:
        if getattr(error, "name", None) != "torch":
            failed[name] = repr(error)
print(json.dumps(failed))
"""


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_all_modules_of_the_probe_can_be_imported(version: str) -> None:
    python = find_version(version)
    if python is None:
        pytest.skip(f"no Python {version} at hand")
    done = subprocess.run([python, "-ISc", IMPORT_ALL, str(PROBE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}
