"""The text of an issue: its blocks, what it reports, and whether a run failed as reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from repro_kit.commands.intake.issue import Issue, Reported, is_issue, read_issue, shown_blocks
from repro_kit.commands.intake.issue_answer import Ran, Told, alike
from repro_kit.commands.intake.issue_files import free_path, left_out
from repro_kit.errors import Exit, UsageError
from repro_kit.failure.classify import failures_from_text
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind

SCRIPT = """import torch

@torch.compile(fullgraph=True)
def g(x):
    return x + 1

g(torch.ones(3))
"""
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/g.py", line 7, in <module>
    g(torch.ones(3))
torch._dynamo.exc.Unsupported: Attempted to call function marked as skipped
  Explanation: Dynamo does not know how to trace the builtin `open`.
"""
VERSIONS = "PyTorch version: 2.4.0+cu121\nIs debug build: False\nOS: Microsoft Windows 11\n"
ARTIFACT = """import torch
class Repro(torch.nn.Module):
    def forward(self, x):
        return (torch.ops.aten.relu.default(x),)

def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)  # x
mod = Repro()
"""


def fenced(*blocks: str, language: str = "") -> str:
    return "\n\n".join(f"```{language}\n{block}```" for block in blocks)


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


def kinds(text: str) -> list[str]:
    return [block.kind for block in read_issue(text).blocks]


def test_the_blocks_of_an_issue_are_told_apart() -> None:
    text = f"### Bug\n\nIt fails.\n\n{fenced(SCRIPT, TRACEBACK, VERSIONS)}\n\nThanks"
    issue = read_issue(text)
    assert kinds(text) == ["script", "traceback", "versions"]
    assert [block.line for block in issue.blocks] == [6, 16, 24]
    assert issue.program(None, "x.md").text == SCRIPT
    reported = issue.reported
    assert (reported.torch, reported.system, reported.device) == ("2.4.0+cu121", "Windows", "")
    assert [failure.kind for failure in reported.failures] == [Kind.DYNAMO_ERROR]
    assert "Bug" in issue.prose and "import" not in issue.prose
    assert shown_blocks(issue, issue.program(None, "x"))[0].startswith("→ 1  script, line 6, 7 lines: import torch")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (fenced(SCRIPT + TRACEBACK, language="python"), ["script", "traceback"]),  # pasted together
        ("\n".join(f"> {line}" for line in fenced(SCRIPT, TRACEBACK).splitlines()), ["script", "traceback"]),
        (f"~~~py\n{SCRIPT}~~~\n", ["script"]),
        (f"```python\n{SCRIPT}", ["script"]),  # never closed
        (SCRIPT, ["script"]),  # a mail without any fence
        ("- a list\n  ```python\n  import torch\n  torch.compile(f)\n  ```\n", ["script"]),
        ("```\n>>> import torch\n>>> torch.compile(abs)(1)\n1\n```", ["script"]),
        ("```python\n!pip install torch\nimport torch\n%timeit 1\n```", ["script"]),
        (fenced(ARTIFACT, language="python"), ["artifact"]),
        (fenced(ARTIFACT + ARTIFACT), ["artifact", "artifact"]),
        ("```python\nimport torch\nx = (\n```", ["broken"]),
        ("```python\nx = torch.ones(2)\n```", ["fragment"]),
        ("```python\nimport torch\ntorch.compile(f)(1)\nx = (\n```", ["broken"]),  # cut off, and not what it printed
        ("```\nV0413 12:35:26.100000 1403 torch/_dynamo/guards.py:1425] Recompiling f\n```", ["log"]),
        ("```\nSegmentation fault (core dumped)\n```", ["traceback"]),
        ("```console\n$ python train.py\n```", ["other"]),
        ("It fails:\n\n    import torch\n    torch.compile(f)(1)\n\nand so on", ["script"]),  # indented, as in a mail
        ("It fails.", []),
        (f"<pre>\n{TRACEBACK}</pre>\n\n{fenced(SCRIPT)}", ["traceback", "script"]),
        (fenced("1\n2\n3\n"), ["other"]),  # numbers, and not those of lines
        (fenced("$ cat > a.json <<EOF\n{}\nEOF\n"), ["other"]),
    ],
)
def test_forms_of_blocks(text: str, found: list[str]) -> None:
    assert kinds(text) == found


@pytest.mark.parametrize(
    "text",
    [
        f'<p>Fails:</p><pre><code class="language-python">{SCRIPT.replace(">", "&gt;")}</code></pre>',
        "```diff\n--- a.py\n+++ a.py\n"
        + "".join(f"{'+' if 'x + 1' in line else ' '}{line}\n" for line in SCRIPT.splitlines())
        + "-    return x\n```",
        fenced("".join(f"{at:3} {line}\n" for at, line in enumerate(SCRIPT.splitlines(), 1))),
        fenced("".join(f"{at}: {line}\n" for at, line in enumerate(SCRIPT.splitlines(), 7))),
        fenced(SCRIPT.replace("    ", "\u00a0\u00a0\u00a0 "), language="python"),
        fenced(f"$ cat > g.py << 'EOF'\n{SCRIPT}EOF\n$ python g.py\n{TRACEBACK}", language="console"),
        fenced(f"python3 - <<END\n{SCRIPT}END\n"),
        f"A wrote:\n\n{quoted(SCRIPT)}\nand then\n\n{quoted(TRACEBACK)}",
        fenced(f"{SCRIPT}\nOutput:\n{TRACEBACK}"),
        fenced(f"{SCRIPT}\n$ python g.py\n{TRACEBACK}"),
        fenced(f"{SCRIPT}\ntensor([2., 2., 2.])\n", language="python"),
        fenced(SCRIPT.replace("fullgraph=True", "backend=“eager”")),
    ],
    ids=[
        *(
            "HTML",
            "a diff",
            "numbers",
            "numbers with colons",
            "blanks of a page",
            "a file of a shell",
            "standard input",
        ),
        *("a mail's quotes", "a word before the output", "the command", "what it printed", "marks of a text processor"),
    ],
)
def test_programs_in_other_clothes(text: str) -> None:
    program = read_issue(text).program(None, "x.md").text.replace('backend="eager"', "fullgraph=True")
    assert program.strip() == SCRIPT.strip()


def test_a_program_in_pieces_is_one() -> None:
    issue = read_issue(
        fenced("import torch\ndef f(x):\n    return x\n", "torch.compile(f)(torch.ones(1))\n", language="py")
    )
    (whole,) = issue.programs
    assert whole.text.startswith("import torch") and "torch.compile(f)" in whole.text
    assert issue.program(None, "x") is whole
    assert "→ 1" in shown_blocks(issue, whole)[0]


MODEL = "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + WIDTH\n"
TRAIN = "from model import Net\n\nNet().compile()\nprint(Net()(3))\n"
BLOCKS = {
    "a line before": "`model.py`:\n```python\n{model}```\n\n**train.py**\n\n```python\n{train}```\n",
    "a heading": "### src/model.py\n\n```python\n{model}```\n### src/train.py\n```python\n{train}```\n",
    "a sentence": "The network is in model.py:\n```\n{model}```\nand this is `train.py`:\n```py\n{train}```\n",
    "details": "<details><summary>model.py</summary>\n```py\n{model}```\n</details>\n\n```py\n# train.py\n{train}```",
    "a comment": "```python\n# file: model.py\n{model}```\n```python\n# ----- train.py -----\n{train}```\n",
    "one block": "```python\n# ====\n# model.py\n# ====\n{model}\n# file: train.py\n{train}```\n",
    "a notebook": "```python\n%%writefile model.py\n{model}```\n```python\n{train}```\n",
    "behind the fence": '```python title="model.py"\n{model}```\n```python:train.py\n{train}```\n',
    "a shell": "```\n$ cat > model.py <<EOF\n{model}EOF\n$ cat > train.py <<EOF\n{train}EOF\n$ python train.py\n```\n",
    "paths": "/home/me/x/model.py\n```python\n{model}```\n../x/train.py\n```python\n{train}```\n",
    "an entry without a name": "`C:\\me\\model.py`\n```python\n{model}```\nI run this:\n```\n{train}```\n",
    "the entry first": "train.py\n```python\n{train}```\nmodel.py\n```python\n{model}```\n",
}


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_a_program_in_several_files(blocks: str) -> None:
    issue = read_issue(f"It fails.\n\n{blocks.format(model=MODEL, train=TRAIN)}\n```\n{TRACEBACK}```\n")
    entry = issue.program(None, "x.md")
    assert entry.compiles and entry.kind == "script"
    (own, text), (other, of_model) = entry.files.items()
    assert own in ("train.py", "main.py") and other == "model.py"
    assert [re.sub(r"(?m)^#.*\n", "", code).strip() for code in (text, of_model)] == [TRAIN.strip(), MODEL.strip()]
    lines = shown_blocks(issue, entry)
    assert len([line for line in lines if line.startswith("+")]) == len([line for line in lines if line[0] == "→"]) == 1
    assert MODEL.strip() in entry.shown and TRAIN.strip() in entry.shown
    assert [failure.kind for failure in issue.reported.failures] == [Kind.DYNAMO_ERROR]


def test_files_stand_where_imports_look_for_them_and_nowhere_else() -> None:
    texts = {
        "run.py": "import torch\nfrom nets.big import Big\nimport os.path, config\ntorch.compile(Big())(1)\n",
        "nets/big.py": "from .layers import Layer\nfrom . import sizes\nclass Big(Layer): ...\n",
        "../nets/layers.py": "import numpy.linalg\nclass Layer: ...\n",
        "nets/__init__.py": "",
        "project/nets/sizes.py": "N = 3\n",
        "/etc/config.py": "N = 3\n",
        "linalg.py": "raise ValueError\n",  # not numpy's
        "torch/__init__.py": "raise ValueError\n",
        "path.py": "raise ValueError\n",
    }
    issue = read_issue("\n".join(f"{name}:\n```python\n{text}```" for name, text in texts.items()))
    assert set(issue.program(None, "x.md").files) == {
        "run.py", "config.py", "nets/big.py", "nets/__init__.py", "nets/layers.py", "nets/sizes.py",
    }  # fmt: skip


def test_the_files_of_a_package_are_modules_beside_the_script() -> None:
    texts = {
        "net/run.py": "import torch\nif 1:\n    from .model import (\n        A,\n        B as C)  # mine\n"
        "from . import sizes as s\n"
        "torch.compile(A())(1)\n",
        "net/model.py": "from .sizes import N; from .deep.part import P\nclass A: ...\nclass B: ...\n",
        "net/sizes.py": "N = 1\n",
        "net/deep/part.py": "from .more import P\n",
        "net/deep/more.py": "P = 2\n",
    }
    issue = read_issue("\n".join(f"{name}:\n```python\n{text}```" for name, text in texts.items()))
    program = issue.program(None, "x.md")
    assert program.files == {
        "run.py": "import torch\nif 1:\n    from model import A, B as C  # mine\n\n\nimport sizes as s\n"
        "torch.compile(A())(1)\n",
        "model.py": "from sizes import N; from deep.part import P\nclass A: ...\nclass B: ...\n",
        "sizes.py": "N = 1\n",
        "deep/part.py": "from .more import P\n",
        "deep/more.py": "P = 2\n",
    }
    assert "from model import A" in program.shown


def test_a_file_that_is_not_whole_is_named() -> None:
    for language, words in (
        ("python", r"line 3 is not whole: '\(' was never"),
        ("", r"it imports model.py \(line 3\)"),
    ):
        issue = read_issue(f"model.py:\n```{language}\nx = (\n```\ntrain.py:\n```python\n{TRAIN}```\n")
        with pytest.raises(UsageError, match=words):
            issue.program(None, "x.md")


def test_names_of_files_part_nothing_that_is_one_program() -> None:
    code = f"# model.py\n{SCRIPT}\n# train.py\nprint(g(torch.ones(2)))\n"
    (whole,) = read_issue(fenced(code, language="python")).programs
    assert not whole.parts and "print(g(" in whole.text
    apart = read_issue(f"The bug is in `a.py`:\n{fenced(SCRIPT)}\nAnd with b.py:\n{fenced(SCRIPT)}")
    assert len(apart.programs) == 2 and not any(block.parts for block in apart.programs)


@pytest.mark.parametrize(
    ("message", "text", "answer", "words"),
    [
        ("ModuleNotFoundError: No module named 'model'", "", "incomplete", "does not contain module model, and"),
        ("ModuleNotFoundError: No module named 'nets.b'", "nets 1.0", "incomplete", "not contain module nets.b"),
        ("`p a.py` imports net.a (a.py:3), which /p does not have; install", "", "incomplete", "contain module net.a,"),
        ("`p a.py` imports timm (a.py:3), which /p does not have; install", "", "cannot run", "imports timm"),
        ("ModuleNotFoundError: No module named 'my_net'", "pip install my-net", "cannot run", "No module named"),
        ("ModuleNotFoundError: No module named 'my_net'", "| my_net==2.1", "cannot run", "No module named"),
        ("ModuleNotFoundError: No module named 'timm'", "", "cannot run", "No module named 'timm'"),
        (
            "ImportError: cannot import name 'f' from 'nets.a' (/x)",
            "",
            "incomplete",
            "module nets.a of the text has no f",
        ),
        ("ImportError: cannot import name 'f' from 'torch' (/x)", "", "cannot run", "cannot import name 'f'"),
    ],
)
def test_a_module_that_neither_the_text_nor_the_machine_has(message: str, text: str, answer: str, words: str) -> None:
    told = Told(Reported((OPEN,)), said=text, modules=("nets.a",)).answer(
        Ran(Exit.USAGE, f"It did not begin: {message}")
    )
    assert told.answer == answer and words in told.sentence, told


def test_the_first_line_of_dynamos_message_is_held_against_the_first_line_of_ours() -> None:
    head = "Attempted to call function marked as skipped"
    whole = f"{head}\n  Explanation: Dynamo does not trace `open`.\n  Hint: x\n\n  Developer debug context: open"
    user = '\n\nfrom user code:\n   File "/me/g.py", line 5, in g\n    open(x)\n'
    for shown in (head, head + user):
        assert alike(failure(shown), failure(whole + user)) is True
        told = Told(Reported((failure(shown),))).answer(Ran(Exit.OK, failures=(failure(whole),)))
        assert told.answer == "reproduces" and "by the first line of the message" in told.sentence
    told = Told(Reported((failure(whole),))).answer(Ran(Exit.OK, failures=(failure(whole),)))
    assert told.answer == "reproduces" and "first line" not in told.sentence
    assert alike(failure("Data-dependent jump"), failure(whole)) is False
    assert alike(failure(whole.replace("trace `open`", "know the thing there")), failure(whole)) is not True


def test_none_of_several_is_taken_silently() -> None:
    issue = read_issue(fenced(SCRIPT, "import torch\nprint(torch.__version__)\n", SCRIPT.replace("+", "*")))
    with pytest.raises(UsageError, match=r"holds 3 programs; choose one with --which N:\n  1: script, line 2") as error:
        issue.program(None, "x.md")
    assert "\n  3: script" in str(error.value)
    assert "*" in issue.program(3, "x.md").text
    with pytest.raises(UsageError, match="--which N"):
        issue.program(4, "x.md")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (fenced(TRACEBACK), "it has tracebacks or logs, and no code"),
        ("It fails with torch.compile", "it has no block of code"),
        ("```python\nimport torch\nx = (\n```", "the code on line 2 is not whole: '\\(' was never closed: x = \\("),
    ],
)
def test_what_is_missing_is_said(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"^Incomplete: nothing of x.md can be run; {words}"):
        read_issue(text).program(None, "x.md")


@pytest.mark.parametrize("what", ["model = ...", "f(...)"])
def test_a_value_that_the_author_left_out(what: str) -> None:
    assert left_out(f"import torch\n{what}\n") == what
    assert not left_out("import torch\nx = torch.ones(3)[..., 0]\ndef f(): ...\n")


def failure(message: str, name: str = "torch._dynamo.exc.Unsupported", kind: Kind = Kind.DYNAMO_ERROR) -> Failure:
    return Failure(kind, exceptions=(ExceptionLink(name, message),))


WRONG = Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=0.5))
OPEN = failure("Attempted to call function marked as skipped: open")
LOST = failure("name 'build' is not defined", "NameError", Kind.RUNTIME_ERROR)
GONE = failure("No module named 'timm'", "ModuleNotFoundError", Kind.RUNTIME_ERROR)
RANKS = failure("env:// rendezvous: environment variable RANK expected, but not set", "ValueError", Kind.RUNTIME_ERROR)
MACHINE: dict[str, Any] = {"torch": "2.13.0", "graphs": 1, "compared": 1}


@pytest.mark.parametrize(
    ("reported", "ran", "answer", "words"),
    [
        (Reported((OPEN,)), Ran(Exit.OK, failures=(OPEN,)), "reproduces", "as reported"),
        (Reported((OPEN,)), Ran(Exit.UNVERIFIED, failures=(WRONG, OPEN)), "reproduces", "as reported"),
        (Reported((OPEN,)), Ran(Exit.OK, failures=(WRONG,)), "fails otherwise", "reported was Unsupported"),
        (Reported((OPEN,)), Ran(Exit.OK, failures=(failure("Data-dependent jump"),)), "fails otherwise", "here it is"),
        (Reported((failure(""),)), Ran(Exit.OK, failures=(OPEN,)), "not known", "says too little"),
        (Reported(), Ran(Exit.OK, failures=(OPEN,)), "not known", "does not show how"),
        (Reported(is_wrong_result=True), Ran(Exit.OK, failures=(WRONG,)), "reproduces", "as reported"),
        (Reported(is_wrong_result=True), Ran(Exit.OK, failures=(OPEN,)), "fails otherwise", "a wrong result"),
        (Reported(is_wrong_result=True), Ran(Exit.ROUNDING, failures=(WRONG,)), "fails otherwise", "rounding alone"),
        (Reported((OPEN,)), Ran(Exit.USER_BUG, failures=(OPEN,)), "fails otherwise", "without torch.compile too"),
        (Reported((OPEN,)), Ran(Exit.USER_BUG, failures=(LOST,)), "incomplete", "NameError: name 'build'"),
        (Reported((LOST,)), Ran(Exit.USER_BUG, failures=(LOST,)), "fails otherwise", "without torch.compile too"),
        (Reported((OPEN,)), Ran(Exit.USER_BUG, failures=(GONE,)), "cannot run", "No module named 'timm'"),
        (Reported((OPEN,)), Ran(Exit.USAGE, "It did not begin: NameError: name 'x' is not defined"), "incomplete", "x"),
        (Reported((OPEN,)), Ran(Exit.CANNOT_RUN, "GPU only: …", failures=(WRONG,)), "cannot run", "GPU only"),
        (Reported((OPEN,)), Ran(Exit.FAILED, "killed"), "cannot run", "killed"),
        (Reported((OPEN,)), Ran(Exit.NOTHING_FAILED, graphs=0), "no compile", "compiled nothing"),
        (Reported((OPEN,), torch="2.4.0", system="macOS"), Ran(Exit.NOTHING_FAILED, **MACHINE), "does not fail here",
         r"with torch 2.13.0 \(reported: torch 2.4.0 on macOS\)"),
        (Reported(is_wrong_result=True), Ran(Exit.NOTHING_FAILED, **MACHINE), "does not fail here", "agree with eager"),
        (Reported(is_wrong_result=True), Ran(Exit.OK, **MACHINE), "does not fail here", "agree with eager"),
        (Reported(is_wrong_result=True), Ran(Exit.NOTHING_FAILED, graphs=1), "not known", "Nothing failed here"),
        (Reported(), Ran(Exit.NOTHING_FAILED, **MACHINE), "not known", "Nothing failed here"),
        (Reported((OPEN,), run_with=("--n 3",)), Ran(Exit.NOTHING_FAILED, **MACHINE), "not known", "with --n 3"),
        (Reported((OPEN,), device="a GPU"), Ran(Exit.NOTHING_FAILED, **MACHINE), "cannot run", "is about a GPU"),
        (Reported((OPEN,), device="a GPU"), Ran(Exit.NOTHING_FAILED, **MACHINE, accelerator="xpu"),
         "does not fail here", "in one run"),
        (Reported((OPEN,)), Ran(Exit.USER_BUG, failures=(RANKS,)), "cannot run", "variable RANK"),
        (Reported((OPEN,), device="CUDA"), Ran(Exit.NOTHING_FAILED, **MACHINE), "cannot run", "is about CUDA"),
    ],
)  # fmt: skip
def test_whether_it_fails_as_reported(reported: Reported, ran: Ran, answer: str, words: str) -> None:
    said = Told(reported).answer(ran)
    assert said.answer == answer, said
    assert re.search(words, said.sentence), said


def test_a_value_that_was_left_out_is_no_failure_of_another_kind() -> None:
    raised = failure("'ellipsis' object is not callable", "TypeError", Kind.RUNTIME_ERROR)
    said = Told(Reported((OPEN,)), "model = ...").answer(Ran(Exit.USER_BUG, failures=(raised,)))
    assert (said.answer, "`model = ...`" in said.sentence) == ("incomplete", True)


def test_a_graph_without_its_values_that_passes() -> None:
    crash = Failure(Kind.CRASH, signal="SIGSEGV")
    passed = Ran(Exit.NOTHING_FAILED, **MACHINE)
    assert Told(Reported((crash,)), is_artifact=True).answer(passed).answer == "not known"
    assert Told(Reported((OPEN,)), is_artifact=True).answer(passed).answer == "does not fail here"


def test_messages_that_are_nearly_alike_are_not_decided() -> None:
    first = failure("Expected a proxy for 'a' of type list in frame one")
    assert alike(first, failure("Expected a proxy for 'b' of type list in frame one")) is None
    assert alike(first, failure("Expected a proxy for 'a' of type list in frame two"))
    assert alike(first, failure("Expected a proxy for 'a' of type list", "ValueError")) is False
    (checked,) = failures_from_text("AssertionError: expected size 2==4, stride 1==1 at dim=1")
    raised = failure("expected size 2==4, stride 1==1 at dim=1", "AssertionError", Kind.RUNTIME_ERROR)
    assert alike(checked, raised) and alike(checked, checked) and alike(checked, WRONG) is None
    wrong = Ran(Exit.OK, failures=(WRONG,))
    assert Told(Reported((checked,))).answer(wrong).answer == "not known"
    assert Told(Reported((checked,), is_wrong_result=True)).answer(wrong).answer == "reproduces"
    shown = "C++ compile error"
    whole = f"{shown}\n\nCommand:\ng++ x.cpp\nOutput:\nx.cpp:3: error: 'f' was not declared"
    assert alike(failure(shown, "CppCompileError"), failure(whole, "CppCompileError")) is None


def test_what_a_text_reports_in_other_forms() -> None:
    cell = "InductorError       Traceback (most recent call last)\nCell In[6], line 1\n----> 1 f(x)\n"
    cell += "InductorError: KeyError: 's0'\n"
    (notebook,) = read_issue(fenced(cell)).reported.failures
    assert [link.message for link in notebook.exceptions][-1] == "'s0'"
    short = "Unsupported        Traceback (most recent call last)\nCell In[6], line 1\nUnsupported: call to open\n"
    dotted = "torch._dynamo.exc.Unsupported: call to open\n"
    lines = (f"**Error**: {dotted}", fenced(f"FAILED a.py::test - {dotted}"))
    for shown in (fenced(short), "Unsupported: call to open\n", *lines):
        (bare,) = read_issue(shown).reported.failures
        assert bare == failures_from_text("torch._dynamo.exc.Unsupported: call to open")[0]
    (named,) = read_issue("It raises `torch._dynamo.exc.Unsupported: call to open`.").reported.failures
    assert failures_from_text("torch._dynamo.exc.Unsupported: call to open")[0] == named
    head = "(EngineCore_DP0 pid={}) ERROR 05-27 11:47:{} [core.py:396] "
    logged = "".join(head.format(at, at) + f"{line}\n" for at, line in enumerate(TRACEBACK.splitlines(), 10))
    assert read_issue(fenced(logged)).reported.failures == read_issue(fenced(TRACEBACK)).reported.failures != ()
    (alone,) = read_issue("It says\n\nAssertionError: expected size 2==4, stride 1==1 at dim=1\n").reported.failures
    assert alone.exceptions[-1].message.startswith("expected size 2==4")
    (bare,) = read_issue(f"Unfenced:\n\n{TRACEBACK}\n").reported.failures
    assert bare.kind is Kind.DYNAMO_ERROR
    for prose in (
        "the gradients differ",
        "silent correctness issue",
        "returns a wrong value",
        "The result is wrong.",
        "the answers were incorrect",
        "Outputs are inconsistent",
    ):
        assert read_issue(prose).reported.is_wrong_result, prose
    for prose in ("it is slow", "no wrong results, but it is slow", "results are fine", "the result is right"):
        assert not read_issue(prose).reported.is_known, prose
    assert read_issue(fenced('import torch\nx = torch.ones(2, device="cuda")\n')).reported.device == "CUDA"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Run it as `TORCHINDUCTOR_CPP_WRAPPER=1 python a.py`.", ("TORCHINDUCTOR_CPP_WRAPPER=1",)),
        ("```console\n$ OMP_NUM_THREADS=4 python t.py --dynamic --n 3\n```", ("OMP_NUM_THREADS=4", "--dynamic --n 3")),
        ('Set TORCHDYNAMO_VERBOSE=1 for the stack, or TORCH_LOGS="+dynamo"', ()),
        (fenced("import os, torch\nos.environ['TORCH_X']='1'\n") + "\nwith TORCH_X=1", ()),
    ],
)
def test_variables_and_arguments_of_the_command(text: str, shown: tuple[str, ...]) -> None:
    assert read_issue(text).reported.run_with == shown


def test_files_that_are_texts_and_where_programs_go(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "a.py").write_text("x")
    assert is_issue(tmp_path / "a.md") and is_issue(Path("-"))
    assert not is_issue(tmp_path / "a.py") and not is_issue(tmp_path / "gone.md")
    assert free_path("x", tmp_path, "a").name == "a.py"
    assert free_path("y", tmp_path, "a").name == "a-2.py"
    assert free_path("y", tmp_path, suffix=".md").name == "issue.md"
    assert Issue((), "").reported == Reported()
