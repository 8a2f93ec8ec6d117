"""The targets of `repro-kit check`: what each word of its command line means, and the script that calls a function."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import Path

from repro_kit.commands.check_findings import Results, read_results
from repro_kit.errors import UsageError

_FUNCTION = re.compile(r"(?P<module>[\w./-]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_FORMS = "module:function, a script, tests/test_x.py::test_y, a .pt2 file, or the .json of an earlier check"
_TESTS = re.compile(r"test_.*\.py|.*_test\.py")
_TEST = re.compile(r"^\s*(async\s+)?def test|^class Test", re.MULTILINE)
_MARK = ' compiled, as `repro-kit check` does."""'
_SCRIPT = '''\
"""Runs {target} compiled, as `repro-kit check` does."""

import importlib
import inspect
import sys

sys.path.insert(0, {directory!r})

import torch


def refuse(why):
    sys.exit("{refused}{target} " + why)


def must_take(function, arguments, named):
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        inspect.signature(called).bind(*arguments, **named)
    except TypeError as error:
        given = "what is returned for it" if arguments or named else "no arguments"
        refuse(f"cannot be called with {{given}} ({{error}}); {form}")
    except ValueError:  # a builtin function does not say what it takes
        pass


torch.manual_seed(0)
if not hasattr(importlib.import_module({module!r}), {name!r}):
    refuse("is not there: {module} has no {name}")
{load}

torch.manual_seed(0)
counters = torch._dynamo.utils.counters["frames"]
compiled_before = sum(counters.values())
if not callable(target):
    refuse(f"is of the type {{type(target).__name__}}, and cannot be called; {form}")
must_take(target, (), {{}})
made = target()
is_factory = isinstance(made, (tuple, list)) and len(made) > 0 and callable(made[0])
if is_factory:  # (callable, arguments[, named arguments])
    function, arguments, named = (*made, (), {{}})[:3] if len(made) == 1 else (*made, {{}})[:3]
    arguments = arguments if isinstance(arguments, (tuple, list)) else (arguments,)
elif sum(counters.values()) > compiled_before:
    sys.exit()  # it compiles by itself, and has done so
else:  # what it returns, if that can be called without arguments, or itself
    function, arguments, named = made if callable(made) else target, (), {{}}
must_take(function, arguments, named)
is_compiled = hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_orig_mod")
compiled = function if is_compiled else torch.compile(function)
for _ in range(2):  # a missing guard shows at the second call
    compiled(*arguments, **named)
'''
#: What that script says first where there is nothing that it can compile.
REFUSED = "repro-kit check: "
_FORM = "check takes a function without arguments; it returns (callable, arguments), or computes by itself"


@dataclass(frozen=True)
class Target:
    """A target, as the words that `collect` would get."""

    name: str
    form: str = "script"
    words: tuple[str, ...] = ()
    file: str = ""  # where it is defined, if that is known
    line: int = 0
    script: str = ""  # the text of the script that repro-kit writes for it
    module: str = ""  # which that script imports
    directory: str = ""  # where that module is looked for
    exported: bool = False
    saved: Results | None = None  # it was run before


def target_of(name: str) -> Target:
    """The target that a word of the command line means. Raises UsageError for what is none."""
    path, function = Path(name), _FUNCTION.fullmatch(name)
    if name.endswith(".json") and path.is_file():
        saved = read_results(path)  # another machine may have made the cases: nothing of them is run
        return Target(name, saved=replace(saved, findings=tuple(replace(each, case="") for each in saved.findings)))
    if name.endswith(".pt2") and path.is_file():
        return Target(name, words=(name,), file=name, exported=True)
    if "::" in name and Path(name.partition("::")[0]).is_file():
        return Target(name, "module", ("pytest", name), name.partition("::")[0])
    if function is not None:
        return _of_function(name, function["module"], function["name"])
    if path.is_file() and _TESTS.fullmatch(path.name) and _holds_tests_alone(path):
        return Target(name, "module", ("pytest", name), name)
    if path.is_file():
        return Target(name, words=(name,), file=name)
    raise UsageError(f"{name} is no target of check: give {_FORMS}.")


def is_own_script(path: Path) -> bool:
    """Whether the file is a script that check has written for a function."""
    if not path.is_file():
        return False
    first = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return first.startswith('"""Runs ') and first.endswith(_MARK)


def _holds_tests_alone(path: Path) -> bool:
    """Whether the file does nothing when Python runs it: it holds tests, and does not call them."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return bool(_TEST.search(text)) and "__main__" not in text


def _of_function(target: str, module: str, name: str) -> Target:
    if module.endswith(".py"):
        file = Path(module)
        if not file.is_file():
            raise UsageError(f"There is no file {module}; give {_FORMS}.")
        directory, module = _imported_as(file.absolute())
    else:
        directory, parts = Path.cwd(), Path(*module.split("."))
        file = next((path for path in (parts.with_suffix(".py"), parts / "__init__.py") if path.is_file()), Path())
    is_name = all(part.isidentifier() and not iskeyword(part) for part in module.split("."))
    load = f"from {module} import {name} as target" if is_name else f"target = sys.modules[{module!r}].{name}"
    where = {"target": target, "directory": str(directory), "module": module, "name": name}
    return Target(
        target,
        file=str(file) if file.is_file() else "",
        line=_line_of(file, name) if file.is_file() else 0,
        script=_SCRIPT.format(**where, load=load, refused=REFUSED, form=_FORM),
        module=module,
        directory=str(directory),
    )


def _imported_as(file: Path) -> tuple[Path, str]:
    """The directory that must be on `sys.path`, and the module's name: a file of a package may import from it."""
    directory, names = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (directory / "__init__.py").is_file() and directory.name.isidentifier():
        directory, names = directory.parent, [directory.name, *names]
    return directory, ".".join(names)


def _line_of(file: Path, name: str) -> int:
    """The line that defines `name`; 0 if none does."""
    defines = re.compile(rf"\s*(async\s+)?(def|class)\s+{name}\b|{name}\s*=")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if defines.match(line)), 0)
