import pytest

from repro_kit.graph.python_code import in_short_lines, joined, reads_of


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(x):\n    return x + SCALE", {"SCALE"}),
        (
            "@register(aten.relu)\ndef f(x, size=WIDTH):\n    y = x\n    def g(): return y * helper(x)\n    return g",
            {"register", "aten", "WIDTH", "helper"},
        ),
        ("y = [x for x in items]", {"items"}),
        ("x = 1\ny = x", {"x"}),
        ("class A(Base):\n    size = WIDTH\n    def f(self): return self.size + OFFSET", {"Base", "WIDTH", "OFFSET"}),
        ("return value", {"value"}),
        ("def f():\n    global counter\n    counter += 1", {"counter"}),
    ],
)
def test_reads_of_the_module(code: str, names: set[str]) -> None:
    assert reads_of(code) == names


def test_statements_are_joined_like_people_write_them_and_imports_come_once() -> None:
    pieces = ["import os", "import re", "x = 1", "y = 2", "def f():\n    pass", "import re", "# why\nx += 1"]
    text = "import os\nimport re\n\nx = 1\ny = 2\n\n\ndef f():\n    pass\n\n\n# why\nx += 1"
    assert joined(pieces) == text
    assert joined([]) == "" and joined(["", "import os", "# nothing"]) == "import os"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("f(a, b)\n", "f(a, b)\n"),
        ("f(aaaaaaaa, bbbbbbbbb)\n", "f(\n    aaaaaaaa,\n    bbbbbbbbb\n)\n"),
        ("if x:\n    f(aaaaaaaaa, b)\n", "if x:\n    f(\n        aaaaaaaaa,\n        b\n    )\n"),
        ("g(f(lambda a: mm(a, 1)), k='(,')(c)\n", "g(\n    f(\n        lambda a: mm(a, 1)\n    ),\n    k='(,'\n)(c)\n"),
        ("f(lambda a, b: mm(a, b), 3)\n", "f(\n    lambda a, b: mm(\n        a,\n        b\n    ),\n    3\n)\n"),
        ("x = '''\nf(aaaaaaaa, bbbbbbbbb)'''\n", "x = '''\nf(aaaaaaaa, bbbbbbbbb)'''\n"),
        ("aaaaaaaa = bbbbbbbb + 1\n", "aaaaaaaa = bbbbbbbb + 1\n"),
        ("f(aaaaaaaa, bbbbbbbbb", "f(aaaaaaaa, bbbbbbbbb"),
    ],
)
def test_long_lines_are_parted_at_their_brackets(code: str, expected: str) -> None:
    assert in_short_lines(code, 18) == expected
