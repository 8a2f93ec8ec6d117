"""What holds of every reduction of a script, whatever the script and the oracle."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.reduce import CannotReduce, Journal
from repro_kit.reduce.reduction import Neighbours, Twin
from repro_kit.script import Script, measure
from repro_kit.script.recording import RecordedTexts
from repro_kit.script.reducer import minify_script, without_idle_twin
from repro_kit.script.tree import NumberedTree, statements
from synthetic_scripts import RunningScripts, SyntheticScripts, build_script, called

COUNT = 14
PLACES = st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=3, unique=True)
SEEDS = st.integers(0, 99)
FEW = settings(max_examples=8, deadline=None)


def planted(places: list[int], seed: int) -> tuple[Script, list[str]]:
    culprits = {at: f"bug{number}" for number, at in enumerate(places)}
    return build_script(COUNT, culprits, seed), list(culprits.values())


def program_of(text: str) -> Script:
    return Script.of(ast.parse(text))


@FEW
@given(PLACES, SEEDS)
def test_every_candidate_parses_and_every_step_is_smaller(places, seed):
    program, bugs = planted(places, seed)
    oracle = SyntheticScripts(bugs)
    result = minify_script(program, oracle)
    for candidate in oracle.seen:
        compile(candidate.text, "script.py", "exec")
    sizes = [measure(program), *(measure(step.program) for step in result.history)]
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert set(bugs) <= called(result.program)


@FEW
@given(PLACES, SEEDS)
def test_the_result_is_1_minimal_in_its_statements(places, seed):
    program, bugs = planted(places, seed)
    result = minify_script(program, SyntheticScripts(bugs))
    assert result.neighbours.minimal and result.stopped == "fixpoint"
    numbered = NumberedTree(result.program)
    for statement in statements(result.program.tree):
        smaller = numbered.edited({numbered.number(statement): None})
        assert smaller is None or not set(bugs) <= called(smaller)


@FEW
@given(PLACES, SEEDS, st.integers(1, 60))
def test_a_killed_search_resumes_to_the_same_end(places, seed, die_at):
    program, bugs = planted(places, seed)
    whole = minify_script(program, SyntheticScripts(bugs))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "journal.jsonl"
        killed = SyntheticScripts(bugs, die_at=die_at)
        try:
            minify_script(program, killed, journal=Journal(path))
        except KeyboardInterrupt:
            assert len(killed.seen) == die_at
        again = SyntheticScripts(bugs)
        resumed = minify_script(program, again, journal=Journal(path))
    assert resumed.program == whole.program and resumed.queries == whole.queries
    assert not {candidate.text for candidate in killed.seen[3:]} & {candidate.text for candidate in again.seen}


@FEW
@given(PLACES, SEEDS)
def test_parallel_judging_takes_the_same_steps(places, seed):
    program, bugs = planted(places, seed)
    alone, two = (minify_script(program, SyntheticScripts(bugs, jobs=jobs)) for jobs in (1, 2))
    assert [step.program for step in alone.history] == [step.program for step in two.history]


class Matches(SyntheticScripts):
    """Fails alike where the text of a script matches each pattern of `bugs`."""

    def fails(self, program):
        return all(re.search(pattern, program.text, re.DOTALL) for pattern in self.bugs)


@pytest.mark.parametrize(
    ("source", "needed", "left"),
    [
        ("torch.manual_seed(0)\nx = torch.randn(2)\nbug(x, torch.rand(2))", ("bug", "(rand|ones).*(rand|ones)"),
         "bug(torch.ones(), torch.ones())"),
        ("torch.manual_seed(0)\nbug(torch.randn(2), torch.rand_like(a))", (r"bug\(torch.randn", "_like"),
         "bug(torch.randn(), torch.ones_like())"),
        ("bug(torch.rand(2, generator=g))", ("bug", r"torch\.", "generator="), "bug(torch.rand(generator=g))"),
    ],
)  # fmt: skip
def test_random_numbers_become_ones_and_a_seed_goes_where_the_failure_needs_neither(source, needed, left) -> None:
    assert minify_script(program_of(source), Matches(needed)).program.text.strip() == left


def test_what_decides_stays_as_it_is():
    program = program_of("x = 1\nassert close(x + 1, 2, atol=0.125)\nfine(x)\n")
    decisive = ("assert close(x + 1, 2, atol=0.125)",)
    result = minify_script(program, SyntheticScripts(["close"]), decisive=decisive)
    assert result.program.text == "assert close(x + 1, 2, atol=0.125)\n"


def test_what_decides_gets_the_values_that_it_alone_reads_in_the_end():
    program = program_of("a = one(3)\nb = two(a)\nok = close(a, b)\nassert ok\n")
    decisive = ("assert ok", "ok = close(a, b)")
    result = minify_script(program, SyntheticScripts(["one", "two", "close"]), decisive=decisive)
    assert result.program.text == "assert close(one(), two())\n"


def test_a_class_and_functions_that_the_check_calls_do_not_stay_for_it():
    methods = "    def __init__(self):\n        self.a = one()\n    def first(self):\n        return two(self.a)\n"
    program = program_of(f"class C:\n{methods}c = C()\nfine(c.first())\nassert close(c.first(), 3), c.first()\n")
    decisive = ("assert close(c.first(), 3), c.first()",)
    result = minify_script(program, SyntheticScripts(["one", "two", "close"]), decisive=decisive)
    assert result.program.text == "assert close(two(one()), 3), two(one())\n"


def test_a_stated_tolerance_is_never_changed():
    program = program_of("def close(*a, **k):\n    pass\nclose([1, 2, 3], rtol=0.125)\n")
    result = minify_script(program, SyntheticScripts(["close"]))
    assert "rtol=0.125" in result.program.text


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    bug0(1)\nif __name__ == '__main__':\n    main()",
        "def f(a, b=2):\n    return bug0(a, b)\nx = f(1)\nfine(x)",
        "def f(a):\n    if a:\n        return bug0(a)\n    return 0\nfine(f(1), f(0))",
        "for i in range(9):\n    with context():\n        bug0(i)",
        "class A(Base):\n    def __init__(self):\n        super().__init__()\n        self.w = bug0(3)\na = A()\na.w",
        "class A(Base):\n    def forward(self, x):\n        return bug0(x)\nA().forward(2)",
        "async def f():\n    bug0(1)\nrun(f())",
        "try:\n    bug0(1)\nexcept ValueError as e:\n    log(e)\nelse:\n    fine()",
        "match [1]:\n    case [1]:\n        bug0(1)\n    case _:\n        fine()",
        "x: int = 5\ny = f'{x} {bug0(x)!r}'",
        "values = {'a': [bug0(i) for i in range(3)], 'b': 2}\nfine(**values)",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = bug0(3)\n    b: str = 'x'\nC()",
        "def generate(n):\n    for i in range(n):\n        yield bug0(i)\nlist(generate(3))",
        "f = lambda x: bug0(x)\nf(3)",
        "xs = {'a': 1, 'b': [2, 3]}\nfine(bug0(xs['b'][1]))",
    ],
)
def test_every_form_of_python_is_taken_apart(text):
    result = minify_script(program_of(text), RunningScripts(["bug0"]))
    assert result.neighbours.minimal and result.statements_after <= 4 and len(result.program.text) <= len(text)


SERVER = """
from concurrent.futures import ThreadPoolExecutor, as_completed

class Server:
    def __init__(self, scale):
        self.scale = scale
        self.seen = []
    def answer(self, request):
        return bug0(request['x'] * self.scale)
    def serve(self, requests):
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(self.answer, request) for request in requests]
            for future in as_completed(futures):
                print(future.result())

server = Server(3)
server.serve([{'id': i, 'x': i + 1} for i in range(3)])
"""


def test_classes_pools_and_comprehensions_around_a_failing_call_go():
    class NeedsItsValue(SyntheticScripts):
        def fails(self, program: Script) -> bool:
            given: list[object] = []
            with contextlib.suppress(Exception), contextlib.redirect_stdout(None):
                exec(program.text, {"bug0": given.append})
            return 6 in given

    result = minify_script(program_of(SERVER), NeedsItsValue([]))
    assert result.program.text == "bug0(2 * 3)\n"


def test_what_the_failing_line_needs_is_tried_first():
    lines = [*(f"a{number} = fine({number})" for number in range(40)), "b = fine(1)", "bug0(b)", "fine(a1)"]
    program = program_of("\n".join(lines))
    oracle = SyntheticScripts(["bug0"])
    result = minify_script(program, oracle, failing_lines=[42])
    assert result.history[0].program.text == "b = fine(1)\nbug0(b)\n"
    assert oracle.seen.index(result.history[0].program) <= 3  # after the runs of the original


def test_no_more_is_compiled_than_the_failure_needs_and_the_lines_stay_at_first():
    text = (
        "@torch.compile\ndef f(x):\n    return x\n"
        "a, b = torch.compile(g), torch.compile(bug0)\nfine(a)\nfine(f)\nbug1(b)\n"
    )

    class NeedsCompiled(SyntheticScripts):
        def fails(self, program: Script) -> bool:
            return "torch.compile(bug0)" in program.text and "bug1" in program.text

    result = minify_script(program_of(text), NeedsCompiled([]), failing_lines=[7])
    assert result.history[0].program.text.startswith("@torch.compile\n")
    assert "(g, torch.compile(bug0))" in result.history[0].program.text
    assert "bug1(torch.compile(bug0))" in result.program.text


def test_recorded_values_take_their_places_but_not_that_of_the_failing_call():
    text = "settings = make()\nfor batch in load(settings.path):\n    x = bug0(settings.width, batch)\n"
    values = {"settings.width": ast.Constant(8), "bug0(settings.width, batch)": ast.Constant(3)}
    items = {"load(settings.path)": ast.Constant(5)}
    result = minify_script(program_of(text), SyntheticScripts(["bug0"]), failing_lines=[3], values=values, items=items)
    assert "bug0(8, batch)" in result.history[0].program.text
    assert result.statements_after == 1


def test_values_that_only_the_shorter_script_has_alone_are_recorded_in_it():
    text = "class Kept:\n    pass\nkept = Kept()\nbug0(kept.width)\n"
    recorded: list[str] = []

    def record(program: Script) -> RecordedTexts:
        recorded.append(program.text)
        return RecordedTexts({"kept.width": ast.Constant(8)}, {})

    class NeedsWidth(SyntheticScripts):
        """The bug needs the width, as a number or from the object."""

        def fails(self, program: Script) -> bool:
            return "bug0(8)" in program.text or (super().fails(program) and "bug0(kept.width)" in program.text)

    oracle = NeedsWidth(["bug0"])
    assert minify_script(program_of(text), oracle).program.text.endswith("bug0(kept.width)\n")
    result = minify_script(program_of(text), NeedsWidth(["bug0"]), record=record)
    assert (result.program.text, len(recorded)) == ("bug0(8)\n", 2)


def test_the_search_goes_on_after_code_that_never_runs_lost_a_name():
    text = "def later():\n    print(gone)\ngone = 1\nkept = [later]\nx = fine(3)\nbug0(x)\n"

    class NeedsList(SyntheticScripts):
        """The bug needs a definition that nothing calls."""

        def fails(self, program: Script) -> bool:
            return super().fails(program) and "print(gone)" in program.text and "later" in program.text

    result = minify_script(program_of(text), NeedsList(["bug0"]))
    assert "gone = " not in result.program.text and "fine" not in result.program.text


def test_an_original_that_passes_is_not_reduced():
    with pytest.raises(CannotReduce):
        minify_script(program_of("fine()"), SyntheticScripts(["bug0"]))


CALLED = """
def function(x):
    y = x
    bug0(y)
x = 1
function(x)
"""


@pytest.mark.parametrize("removed", ["    y = x\n", "    bug0(y)\n", "function(x)\n"])
def test_a_variant_that_does_not_run_what_fails_is_not_named(removed: str) -> None:
    program, traceback = program_of(CALLED), (5, 3)
    twin = Twin(f"without `{removed.strip()}`", program_of(CALLED.replace(removed, "")))
    result = replace(minify_script(program, SyntheticScripts(["bug0"])), program=program)
    result = without_idle_twin(replace(result, neighbours=Neighbours(twin=twin)), traceback)
    assert result.neighbours.twin == (twin if "y = x" in removed else None)


NUMBERED = """
n = 40
bug0(n, 7)
"""


class Above(SyntheticScripts):
    """Fails where the culprit gets a number of at least 9."""

    def fails(self, program: Script) -> bool:
        numbers = [int(each) for each in re.findall(r"\d+", program.text.replace("bug0", "bug"))]
        return super().fails(program) and max(numbers, default=0) >= 9


def test_the_number_that_decides_costs_no_query() -> None:
    result = minify_script(program_of(NUMBERED), Above(["bug0"]))
    number = result.neighbours.number
    assert number is not None
    assert number.fails >= 9 > number.passes > 0
    assert number.what.startswith("the number in `bug0("), "the innermost operation around it"
    assert result.neighbours.twin is not None
    assert result.neighbours.twin.what == number.change
    assert without_idle_twin(result, (1, 2)).neighbours.twin == result.neighbours.twin
