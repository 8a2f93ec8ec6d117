"""Whether a program from the text of an issue fails as the text reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from repro_kit.commands.intake.issue import Reported
from repro_kit.commands.intake.issue_files import is_package
from repro_kit.errors import Exit
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.messages import headline, is_explained, normalise, same_message, same_op
from repro_kit.failure.signature import (
    LIKENESS,
    LIKENESS_ACROSS_VERSIONS,
    Signature,
    Strength,
    in_words,
    signature_of,
)
from repro_kit.failure.tracebacks import short

AnswerKind = Literal[
    "reproduces", "fails otherwise", "does not fail here", "cannot run", "incomplete", "no compile", "not known"
]
_COMPILING = (Kind.COMPILE_ERROR, Kind.DYNAMO_ERROR)  # which hardly ever depend on values
_FAILED = (Exit.OK, Exit.UNVERIFIED, Exit.FAILED, Exit.ROUNDING)
#: What ends a script that needs something which the text, or this machine, does not have.
_LACKS_PACKAGE = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError|ConnectionError|URLError|HTTPError|SSLError|GatedRepoError"
    r"|LocalEntryNotFoundError|OfflineModeIsEnabled): [^\n]*|environment variable (?:RANK|WORLD_SIZE)[^\n]*"
)
_LACKS_MODULE = re.compile(  # as Python says it, and as `collect` does (verdicts/not_the_compiler.py)
    r"\bModuleNotFoundError: No module named '(?P<raised>[\w.]+)'"
    r"|` imports (?P<told>[\w.]+)(?: \([^()\n]*\))?, which \S+ does not have;"
)
_LACKS_NAME = re.compile(r"\bImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")
_INSTALLED = r"(?i:\b{0}(?: version)?[\s:=v>~`*|]{{0,20}}\d+\.\d|install [^\n`]*\b{0}\b)"
_LACKS_PART = re.compile(r"\b(?:NameError|UnboundLocalError|FileNotFoundError): [^\n]*")


@dataclass(frozen=True)
class Answer:
    """Whether the program fails as the text of the issue reports."""

    answer: AnswerKind
    sentence: str


@dataclass(frozen=True)
class Ran:
    """How the run of the program of an issue ended. `graphs`: how many were compiled; None: that is not known."""

    exit: Exit
    sentence: str = ""
    failures: tuple[Failure, ...] = ()
    graphs: int | None = None
    compared: int = 0  # compiled calls that were compared with eager
    torch: str = ""
    accelerator: str | None = None


@dataclass(frozen=True)
class Told:
    """What a text tells of the program that is run: the failure, and a statement whose value the author left out.

    `is_artifact`: it is a graph without its values, which are made up. `said`: its prose and what was installed.
    `modules`: those of the program that the text contains.
    """

    reported: Reported
    left_out: str = ""
    is_artifact: bool = False
    said: str = ""
    modules: tuple[str, ...] = ()

    def answer(self, ran: Ran) -> Answer:
        """Whether the program failed as the text reports."""
        if ran.failures and ran.exit in _FAILED:
            return self._of_failure(ran)
        said = "\n".join([ran.sentence, *(_words(failure) for failure in ran.failures)])
        if lacking := self._lacking(said):
            return Answer("incomplete", f"Incomplete: {lacking}.")
        if (package := _LACKS_PACKAGE.search(said)) and not self._reports(package[0]):
            return Answer("cannot run", f"Cannot run here: {package[0]}")
        if ran.exit in (Exit.USER_BUG, Exit.USAGE, Exit.CANNOT_RUN, Exit.FAILED):
            if (part := _LACKS_PART.search(said)) and not self._reports(part[0]):
                return Answer("incomplete", f"Incomplete: the text lacks a part of the program ({part[0]}).")
            if self.left_out and ran.exit is not Exit.CANNOT_RUN:
                return Answer("incomplete", f"Incomplete: the text leaves out a value (`{self.left_out}`).")
        if ran.exit is Exit.USER_BUG:
            return self._of_failure(ran)
        if ran.exit is Exit.NOTHING_FAILED or (ran.exit is Exit.OK and not ran.failures):
            return self._of_pass(ran)
        return Answer(
            "cannot run", f"Cannot run here: {ran.sentence.splitlines()[0] if ran.sentence else 'it did not end'}"
        )

    def _lacking(self, said: str) -> str:
        """The module or the name in it that the text should contain and does not; empty if it lacks no such thing."""
        module, name = _LACKS_MODULE.search(said), _LACKS_NAME.search(said)
        if name and name["module"] in self.modules and not self._reports(name[0]):
            return f"the module {name['module']} of the text has no {name['name']}"
        if module is None or self._reports("ModuleNotFoundError"):
            return ""
        lost = module["raised"] or module["told"]
        top = lost.partition(".")[0]
        is_installed = re.search(_INSTALLED.format(re.sub("[-_]", "[-_]", top)), self.said)
        if top not in {each.partition(".")[0] for each in self.modules} and (is_installed or is_package(top)):
            return ""
        return f"the text does not contain module {lost}, and it is not installed here"

    def _reports(self, words: str) -> bool:
        return any(words.partition(":")[0] == short(failure.exceptions[-1].type) for failure in self._raised)

    @property
    def _raised(self) -> list[Failure]:
        return [failure for failure in self.reported.failures if failure.exceptions]

    def _of_failure(self, ran: Ran) -> Answer:
        """The answer for a run that failed."""
        ours = _words(ran.failures[0]) if ran.failures else ran.sentence
        if ran.exit is Exit.ROUNDING:
            return Answer("fails otherwise", f"No failure as reported: results differ by rounding alone ({ours}).")
        if not self.reported.is_known:
            return Answer("not known", f"It fails here ({ours}), but the text does not show how it failed there.")
        same = [alike(reported, seen) for reported in self.reported.failures for seen in ran.failures]
        if self.reported.is_wrong_result and True not in same and (None in same or not self.reported.failures):
            same = [seen.kind is Kind.ACCURACY for seen in ran.failures]
        theirs = _words(self.reported.failures[0]) if self.reported.failures else "a wrong result"
        if True not in same and None in same:
            return Answer(
                "not known", f"It fails here ({ours}); the text says too little to tell whether it is that failure."
            )
        if True not in same:
            eager = ", without torch.compile too" if ran.exit is Exit.USER_BUG else ""
            return Answer("fails otherwise", f"Fails otherwise: reported was {theirs}; here it is {ours}{eager}.")
        if ran.exit is Exit.USER_BUG:
            return Answer("fails otherwise", f"Fails as reported, but without torch.compile too: {ours}.")
        pairs = [pair for pair in product(self.reported.failures, ran.failures) if alike(*pair)]
        by_head = bool(pairs) and all(_headlines(*pair) for pair in pairs)
        shown = ", by the first line of the message, which is all that the text shows" * by_head
        return Answer("reproduces", f"Reproduces: it fails as reported{shown} ({ours}).")

    def _of_pass(self, ran: Ran) -> Answer:
        """The answer for a run that did not fail."""
        reported = self.reported
        if ran.graphs == 0:
            return Answer("no compile", "No compile: the program ran to its end, and compiled nothing.")
        wanted = reported.device if reported.device != "a GPU" else (ran.accelerator or "a GPU").upper()
        if reported.device and wanted != (ran.accelerator or "").upper():
            return Answer(
                "cannot run", f"Cannot run here: the text is about {reported.device}; without it nothing failed."
            )
        if reported.run_with:
            named = ", ".join(reported.run_with)
            return Answer("not known", f"Nothing failed here, but the text runs it with {named}; give that, too.")
        if self.is_artifact and any(failure.kind not in _COMPILING for failure in reported.failures):
            return Answer("not known", "Nothing failed here, but the text holds no values, and others were made up.")
        if not reported.is_known or not (reported.failures or ran.compared):
            return Answer("not known", "Nothing failed here, but the text does not show how it failed there.")
        there = f"torch {reported.torch}" if reported.torch else ""
        there = " on ".join(filter(None, [there, reported.system]))
        agree = " in one run" if reported.failures else "; results agree with eager's"
        here = f" with torch {ran.torch}" if ran.torch else ""
        return Answer("does not fail here", f"Does not fail here{here}{f' (reported: {there})' * bool(there)}{agree}.")


def _words(failure: Failure) -> str:
    return in_words(signature_of(failure), failure)


def _root(failure: Failure) -> str:
    return failure.exceptions[-1].message.strip() if failure.exceptions else ""


def _headlines(reported: Failure, seen: Failure) -> bool | None:
    """Whether Dynamo's messages begin alike, where a text shows the first line alone; None: it shows more or less."""
    theirs, ours = _root(reported), _root(seen)
    if not theirs or is_explained(theirs) or not is_explained(ours):
        return None
    return True if normalise(headline(theirs)) == normalise(headline(ours)) else None


def _is_exception(signature: Signature) -> bool:
    """Whether an exception shows the failure; also one of a check that does not say what differs."""
    if signature.kind is Kind.ACCURACY:
        return signature.difference is None and bool(signature.exceptions)
    return signature.kind.policy.shown_by is ShownBy.EXCEPTION


def alike(reported: Failure, seen: Failure) -> bool | None:
    """Whether `seen` is the failure `reported`, of which a text may show little; None: it shows too little to tell."""
    there, here = signature_of(reported), signature_of(seen)
    if not (_is_exception(there) and _is_exception(here)):
        if there.kind is here.kind is Kind.ACCURACY and None in (there.difference, here.difference):
            return None  # a check of the script's own may be about anything
        return there.matches(here, Strength.CROSS_VERSION) or here.matches(there, Strength.CROSS_VERSION)
    if there.exceptions[-1:] != here.exceptions[-1:] or not same_op(there.op, here.op):
        return False
    if (heads := _headlines(reported, seen)) is not None:
        return heads
    begins = _root(reported) and _root(seen).startswith(_root(reported)) and _root(seen) != _root(reported)
    if begins and there.message != here.message:
        return None  # the text shows the first words of the message alone
    if there.message and here.message:
        if same_message(there.message, here.message, likeness=LIKENESS):
            return True
        near = same_message(there.message, here.message, likeness=LIKENESS_ACROSS_VERSIONS, keys=False)
        return None if near else False
    if there.frames and here.frames:
        return there.frames[0] == here.frames[0] and there.message == here.message
    return None
