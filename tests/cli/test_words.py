"""Where repro-kit's options end and the user's command begins."""

from __future__ import annotations

import pytest

from repro_kit.cli.stages import collect


@pytest.mark.parametrize(
    ("line", "options", "form", "subject"),
    [
        ("train.py --json -v", "", "script", "train.py --json -v"),
        ("--json train.py --json", "--json", "script", "train.py --json"),
        ("--timeout 5 -j2 -qv train.py x", "--timeout 5 -j2 -qv", "script", "train.py x"),
        ("--timeout=5 -j 2 train.py", "--timeout=5 -j 2", "script", "train.py"),
        ("-o out -m pkg.mod --arg -- x", "-o out", "module", "pkg.mod --arg -- x"),
        ("-y -- pytest -k x -- y", "-y", "command", "pytest -k x -- y"),
        ("-- python train.py", "", "command", "python train.py"),
        ("--debug-artifacts --include-values train.py", "--debug-artifacts --include-values", "script", "train.py"),
        ("--trace no train.py", "--trace no", "script", "train.py"),
        ("--json", "--json", "script", ""),
        ("train.py -m x", "", "script", "train.py -m x"),
    ],
)
def test_split(line, options, form, subject):
    assert collect.split(line.split()) == (options.split(), form, subject.split())
