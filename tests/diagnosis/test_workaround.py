from repro_kit.diagnosis.workaround import Intrusion, Workaround, markdown, ordered, rows, with_baseline
from repro_kit.failure.failure import Measured, Status

BACKEND = Workaround(
    "backend aot_eager",
    Intrusion.BACKEND,
    ('torch.compile(…, backend="aot_eager")',),
    "where it is compiled",
    status=Status.PASS,
    to_eager=Measured(1.2, 1.1, 1.3),
)
PART = Workaround(
    "leave inner (a.py:3) to eager",
    Intrusion.DISABLE,
    ("@torch.compiler.disable", "def inner(…):"),
    "at a.py:3",
    status=Status.PASS,
    to_eager=Measured(0.6, 0.5, 0.7),
)
USELESS = Workaround(
    "leave outer (a.py:9) to eager",
    Intrusion.DISABLE,
    ("@torch.compiler.disable", "def outer(…):"),
    "at a.py:9",
    status=Status.FAIL,
    outcome="InductorError: no lowering",
)


def test_least_intrusive_first_and_what_works_before_what_does_not():
    assert ordered([BACKEND, USELESS, PART]) == (PART, USELESS, BACKEND)


def test_costs_are_to_eager_and_to_the_compiled_run_where_there_is_one():
    assert PART.cost == "0.60x eager [0.50 to 0.70]"
    (known,) = with_baseline([PART], Measured.exact(0.5))
    assert known.cost == "0.60x eager [0.50 to 0.70], 1.20x compiled [1.00 to 1.40]"
    assert with_baseline([PART], None) == (PART,)


def test_the_table_says_what_happens_instead():
    assert rows([USELESS]) == [("leave outer (a.py:9) to eager", "✗ does not help", "InductorError: no lowering")]


def test_markdown_has_the_lines_of_what_works_alone():
    text = markdown([PART, USELESS, BACKEND])
    assert "@torch.compiler.disable\n  def inner(…):" in text
    assert "def outer" not in text
    assert text.endswith("Tried without success: leave outer (a.py:9) to eager.")
    assert markdown([USELESS]) == ""
