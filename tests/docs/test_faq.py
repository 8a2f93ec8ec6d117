"""The page about endings quotes what repro-kit prints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repro_kit.case.case import Subject
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.cli.common.work import show
from repro_kit.errors import Exit, UsageError
from repro_kit.failure.differences import Rounding
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import COMPILER
from repro_kit.failure.signature import signature_of
from repro_kit.pipeline.summary import CaseSummary
from repro_kit.stages.observe import conclusion
from repro_kit.ui import SilentUi
from repro_kit.verdicts import not_the_compiler
from root import ROOT

#: Sentences that no function makes alone, as they stand in the source.
IN_SOURCE = {
    "The bundle is NOT VERIFIED: ": "stages/bundle/stage.py",
    "It cannot be told whether the compiler is at fault:": "stages/observe/stage.py",
    " has no torch; activate the environment that has it, or give --python PATH.": "subject/subject_check.py",
    " is kept. To resume: ": "cli/common/work.py",
    ", so nothing can be said of the compiler": "verdicts/not_the_compiler.py",
}


class Panels(SilentUi):
    """Keeps what the panel says."""

    said: tuple[str, ...] = ()

    def panel(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        self.said = (title, *(text for _, text in lines))


def sentences() -> list[str]:
    """What is printed at the endings."""
    ui = Panels()
    show(ui, CaseSummary(Exit.OK, case="a.repro", bundle="a.repro.zip", verified=True), "", ["bundle"])
    subject = Subject("script", ("train.py",), "/work", "/usr/bin/python3")
    text = "usage: train.py --data DATA\ntrain.py: error: the following arguments are required: --data"
    refused = ""
    try:
        not_the_compiler.refuse_what_did_not_begin(Failure(Kind.RUNTIME_ERROR, exit_status=2, text=text), subject)
    except UsageError as error:
        refused = f"error: {error}"
    link = ExceptionLink("RuntimeError", "Torch not compiled with CUDA enabled", ())
    users = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("ValueError", "no", ()),))
    rounding = Rounding()
    why = conclusion.why_nothing({}, saw_torch=True)
    return [
        *ui.said,
        *conclusion.sentences("exit status 0 after 5 s", 3, "", ("train.py",), "").splitlines(),
        *conclusion.sentences("exit status 0 after 5 s", 0, "", ("train.py",), why).splitlines(),
        not_the_compiler.stop_for_eager_failure(ObservedFailure(users, signature_of(users))).sentence,
        f"{rounding.cause}, not a bug: {rounding.sentence}.",
        refused,
        f"This machine lacks {COMPILER}",
        not_the_compiler.lacks_device(Failure(Kind.RUNTIME_ERROR, exceptions=(link,))),
    ]


def test_each_quoted_sentence_is_one_that_is_printed() -> None:
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    quotes = re.findall(r"^> (.+)$", page, re.MULTILINE)
    printed = "\n".join(sentences())
    unknown = [quote for quote in quotes if quote not in printed and not any(part in quote for part in IN_SOURCE)]
    assert len(quotes) > 9 and unknown == []
    for part, file in IN_SOURCE.items():
        assert part in (ROOT / "src" / "repro_kit" / file).read_text(encoding="utf-8")


def test_nine_endings_are_told() -> None:
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"^## .+ \((\d+)\)$", page, re.MULTILINE)]
    assert len(codes) == 9 and {*codes} <= {int(code) for code in Exit}
