"""A script and the user's modules become one file that does the same."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from repro_kit.script import CannotFold, ModuleText, fold
from repro_kit.script.user_imports import variables_before_torch


def folded(main: str, modules: dict[str, str] | None = None, arguments: tuple[str, ...] = (), package: str = "") -> str:
    packages = {name.rpartition(".")[0] for name in modules or {}}
    texts = {
        name: ModuleText(name, text, name if name in packages else name.rpartition(".")[0])
        for name, text in (modules or {}).items()
    }
    return fold(ModuleText("__main__", main, package), texts.get, arguments).text


def output(text: str) -> str:
    out = io.StringIO()
    before = sys.argv
    sys.argv = ["script.py"]
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
    finally:
        sys.argv = before
    return out.getvalue()


def test_names_that_two_modules_define_stay_apart():
    text = folded(
        "import a, b\nsize = 3\nprint(a.size(), b.size(), size)",
        {"a": "def size(): return 1", "b": "def size(): return helper()\ndef helper(): return 2"},
    )
    assert output(text) == "1 2 3\n"


def test_every_form_of_import_reaches_its_name():
    modules = {
        "pkg": "from .layers import Block\nVERSION = 7",
        "pkg.layers": "from . import util as u\nfrom .util import *\n"
        "class Block:\n    def go(self): return u.twice(SCALE)",
        "pkg.util": "SCALE = 5\ndef twice(x): return 2 * x",
    }
    main = """
import pkg.util
import pkg.layers as layers
from pkg import Block as B, VERSION
def inside():
    from pkg.util import twice as double
    import pkg.util as other
    return double(3), other.SCALE
print(pkg.util.twice(1), layers.Block().go(), B is layers.Block, VERSION, inside())
"""
    assert output(folded(main, modules)) == "2 10 True 7 (6, 5)\n"


def test_a_local_name_does_not_hide_what_a_module_provides():
    text = folded("import a\ndef f(loss):\n    return loss + a.loss()\nprint(f(1))", {"a": "def loss(): return 10"})
    assert output(text) == "11\n"


def test_a_module_that_is_used_as_a_value_has_its_names():
    text = folded("import nets\nname = 'small'\nprint(getattr(nets, name)())", {"nets": "def small(): return 'ok'"})
    assert output(text) == "ok\n"


def test_the_main_part_of_an_imported_module_is_left_out_and_its_name_stays():
    text = folded("import a\nprint(a.name)", {"a": "name = __name__\nif __name__ == '__main__':\n    print('wrong')"})
    assert output(text) == "a\n" and "wrong" not in text


def test_the_arguments_are_part_of_the_file():
    text = folded(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int)\nprint(p.parse_args().n)",
        arguments=("--n", "4"),
    )
    assert output(text) == "4\n"


def test_a_module_run_with_m_has_relative_imports():
    modules = {"pkg": "", "pkg.helper": "def f(): return 1"}
    assert output(folded("from .helper import f\nprint(f())", modules, package="pkg")) == "1\n"


def test_modules_run_in_the_order_of_their_first_import():
    modules = {"a": "print('a')\nimport c", "b": "print('b')", "c": "import b\nprint('c')"}
    assert output(folded("print('start')\nimport a, b\nprint('end')", modules)) == "start\na\nb\nc\nend\n"


def test_globals_that_functions_change_keep_their_own_names():
    text = folded(
        "import a\ncount = 5\na.more()\nprint(a.count, count)",
        {"a": "count = 0\ndef more():\n    global count\n    count += 1"},
    )
    assert output(text) == "1 5\n"


def test_an_import_that_may_fail_keeps_its_fallback():
    text = folded(
        "try:\n    from fast import f\nexcept ImportError:\n    def f(): return 'slow'\nprint(f())",
        {"fast": "def f(): return 'fast'"},
    )
    assert output(text) == "fast\n"


def test_a_comprehension_and_a_class_body_have_scopes_of_their_own():
    text = folded(
        "import a\nx = 1\nclass C:\n    x = 2\n    def get(self): return x\nprint(C().get(), [x for x in (9,)], a.x)",
        {"a": "x = 3"},
    )
    assert output(text) == "1 [9] 3\n"


@pytest.mark.parametrize(
    ("main", "modules", "why"),
    [
        ("from . import gone", {}, "relative import"),
        ("import a\ndef f():\n    a.x = 1\nf()", {"a": "x = 0"}, "a function changes x of the module a"),
        ("def f(:", {}, "cannot be parsed"),
    ],
)
def test_what_cannot_be_folded_is_named(main, modules, why):
    with pytest.raises(CannotFold, match=why):
        folded(main, modules)


def test_a_docstring_stays_where_the_program_reads_it():
    modules = {"a": '"""Of a."""\ndef f():\n    """Of f."""\nname = __doc__'}
    main = '"""The main program.\n\nMore."""\nimport a\nprint(__doc__.splitlines()[0], a.name)'
    assert output(folded(main, modules)) == "The main program. Of a.\n"
    assert "Of f." not in folded(main, modules)
    assert output(folded("import a\nprint(a.f.__doc__)", modules)) == "Of f.\n"
    assert output(folded("import a, inspect\nprint(inspect.getdoc(a.f))", modules)) == "Of f.\n"
    assert output(folded("print(__doc__)")) == "None\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("import os\nos.environ['A'] = '1'\nimport torch\nos.environ['B'] = '1'", {"A": "1"}),
        ("import os\nos.environ.setdefault('A', '1')\nos.environ.update({'B': '2'})\nfrom torch import nn", None),
        ("from os import environ\nimport torchvision\nenviron['A'] = '1'\nimport torch.nn", {"A": "1"}),
        ("import os\nos.environ['A'] = str(1)\nvalues = {}\nvalues['B'] = '2'\nos.environ[values] = '1'", {}),
        ("import os\nos.environ['PYTHONHOME'] = '/'\nos.environ.update({'LD_PRELOAD': 'a', 'A': '1'})", {"A": "1"}),
        ("import os\nos.environ[''] = os.environ['a=b'] = '1'\nos.environ.update({'': '1', 'A': '\\0', 'B': 1})", {}),
    ],
)
def test_variables_that_torch_reads_when_it_is_imported_are_those_above_its_import(
    lines: str, found: dict[str, str] | None
) -> None:
    assert variables_before_torch(lines) == ({"A": "1", "B": "2"} if found is None else found)


def test_a_default_takes_the_place_of_no_variable_that_is_there() -> None:
    lines = "import os\nos.environ['B'] = '1'\n" + "".join(f"os.environ.setdefault('{name}', '2')\n" for name in "ABC")
    assert variables_before_torch(lines, {"A"}) == {"B": "1", "C": "2"}
