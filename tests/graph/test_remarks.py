"""Comments and docstrings go, all else stays: the code does what it did."""

import ast

import pytest

from repro_kit.graph.python_code import without_remarks
from repro_kit.script.fold import without_docstrings
from root import ROOT

OPERATOR = '''
import torch

LIMIT = "a # b"  # the customer's limit


class Layer:  # of the walnut project
    """A layer of the walnut project.

    It has two paragraphs.
    """

    scale: int = 2
    "how much"

    # the forward of walnut
    def forward(self, x):
        "é walnut"; y = x  # type: torch.Tensor
        return [
            # first
            y,
        ]

    def nothing(self):
        """Only a walnut."""

    def text(self):
        return """
# no comment
"""
'''


def test_comments_and_docstrings_go():
    bare = without_remarks(OPERATOR)
    assert not any(word in bare for word in ("walnut", "paragraphs", "customer", "how much", "first"))
    assert "# type: torch.Tensor" in bare and '"a # b"' in bare and "\n# no comment\n" in bare
    assert "def nothing(self):\n        pass" in bare


def test_a_docstring_stays_where_the_program_reads_one():
    code = 'def f():\n    """Doc."""  # mine\n\nprint(f.__doc__)\n'
    assert without_remarks(code) == code.replace("  # mine", "")


def test_what_is_no_python_stays():
    assert without_remarks("def f(:  # mine\n") == "def f(:  # mine\n"


FILES = sorted(
    [*ROOT.glob("src/repro_kit/bundle/**/*.py"), *ROOT.glob("examples/*.py"), *ROOT.glob("tests/probe/*.py")]
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_code_is_the_same(path):
    code = path.read_text(encoding="utf-8")
    bare = without_remarks(code)
    trees = [ast.parse(text) for text in (code, bare)]
    if "__doc__" not in code and "getdoc" not in code:
        for tree in trees:
            tree.body = without_docstrings(tree.body)
        assert (
            not [line for line in bare.splitlines() if line.lstrip().startswith("# ")] or "'''" in bare or '"""' in bare
        )
    assert ast.dump(trees[0]) == ast.dump(trees[1])
