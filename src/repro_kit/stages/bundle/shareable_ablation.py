"""An ablation for the bundle: short, with commands that work with the bundle alone, without unasked-for code."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace

from repro_kit.bundle.facts import telling_line
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.case.case import Case
from repro_kit.diagnosis.axes import repeat_by_hand
from repro_kit.diagnosis.cell import Ablation, Cell, CellPlan
from repro_kit.diagnosis.evidence import Chain, Flip, Link, Side
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.recipe import Recipe
from repro_kit.repro_run.untrusted import REPRO
from repro_kit.runner.subject_start import command as launched
from repro_kit.stages.bundle.form_files import sources_of
from repro_kit.stages.bundle.forms import ReproForm

Words = Callable[[Sequence[str]], Sequence[str]]

_PROGRAM = re.compile(r"(?s:(?:.*/)?)(?:capture/program|minify/best)\.py")  # with any path before it
_REMARK = re.compile(r"  # ")
_VARIABLE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>.*)", re.DOTALL)
_STRING = re.compile(r"(?<!\w)(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")  # as `repr` writes it
#: Before a statement: its place in a file. A program of the case is not in the bundle.
_PLACE_IN_FILE = re.compile(r"^\S*:\d+: ")
_STATEMENT_AT = re.compile(r"^\S*(?:program|best)\.py:\d+: ")
_LINE = 500  # characters of a message


def shareable_ablation(
    ablation: Ablation, case: Case, form: ReproForm, bundled_code: str, *, code: bool, words: Words = list
) -> Ablation:
    """`ablation` for the bundle of `form`. `bundled_code`: the code in the bundle. `code`: more code may be shared.

    `words` turns the words of the user's command into the words that the bundle shows.
    """
    turned = _commands(case, form, words)
    cells = tuple(_cell(cell, ablation.recipe, form, turned) for cell in ablation.cells)
    of_cells = {old.repeat: new.repeat for old, new in zip(ablation.cells, cells, strict=True)}

    def repeat(command: str) -> str:
        return of_cells[command] if command in of_cells else turned(command)

    # The applications of a subsystem have other numbers in the reduced program than in the captured one.
    other_numbers = ablation.subject == "program" and form.reduced != (ablation.program == "reduced")
    chain = ablation.chain and _chain(
        ablation.chain, repeat, None if code else bundled_code, other_numbers=other_numbers
    )
    return replace(ablation, cells=cells, chain=chain)


def _commands(case: Case, form: ReproForm, words: Words) -> Callable[[str], str]:
    """A function that turns a command of this machine into a command for the bundle; "" if there is none.

    The command of a script becomes `repro.py`, which knows where the script is, and how to run it in eager where
    torch refuses ``fullgraph=True`` under ``TORCH_COMPILE_DISABLE=1``.
    """
    subject = case.file.subject
    typed = list(subject.argv)
    # The bundle has the user's files in another directory.
    moved = typed if form.program else list(sources_of(case, form).argv)
    shown = [*moved[:1], *words(moved[1:])]
    moved_words = {old: new for old, new in zip(typed, moved, strict=False) if old != new}
    whole = launched(subject) if form.program is None else []
    # repro.py watches a child process, which settings made before do not reach.
    settings_reach = not form.facts.signature.kind.policy.ends_process

    def named(word: str) -> str:
        return REPRO if _PROGRAM.fullmatch(word) else moved_words.get(word, word)

    def turned(command: str) -> str:
        given, remark = _parted(command)
        if any(map(_PROGRAM.search, given)) and (form.program is None or ("-c" in given and not settings_reach)):
            return ""
        if whole and given[-len(whole) :] == whole:
            return _joined([*given[: -len(whole)], "python", REPRO]) + remark
        if len(typed) > 1 and given[1 - len(typed) :] == typed[1:]:
            given[1 - len(typed) :] = shown[1:]
        given = ["python" if word == subject.python else _in_code(named(word), named) for word in given]
        inside = f"cd {PLACE} && " if form.program is None and form.is_users_script and given else ""
        return inside + _joined(given) + remark

    return turned


def _parted(command: str) -> tuple[list[str], str]:
    """The words of a command, and the remark at its end. Inside a quoted word no remark begins."""
    for at in (match.start() for match in _REMARK.finditer(command)):
        with suppress(ValueError):  # a quote without its end
            return shlex.split(command[:at]), command[at:]
    return shlex.split(command), ""


def _joined(words: Sequence[str]) -> str:
    """The command of `words`. A shell takes no variable whose name is in quotes."""
    variables = ((_VARIABLE.fullmatch(word), word) for word in words)
    return " ".join(
        f"{given['name']}={shlex.quote(given['value'])}" if given else shlex.quote(word) for given, word in variables
    )


def _in_code(code: str, named: Callable[[str], str]) -> str:
    """`code` with what `named` makes of each of its strings."""

    def string(match: re.Match[str]) -> str:
        try:
            value = str(ast.literal_eval(match[0]))
        except (SyntaxError, ValueError):  # of a word that is no code
            return match[0]
        return match[0] if named(value) == value else repr(named(value))

    return _STRING.sub(string, code)


def _cell(cell: Cell, own_recipe: Recipe, form: ReproForm, repeat: Callable[[str], str]) -> Cell:
    failure = cell.verdict.failure and _short(cell.verdict.failure)
    if cell.subject == "script":
        command = repeat(cell.repeat)
    else:
        command = _of_program(cell, own_recipe) if form.program is not None and cell.repeat else ""
    return replace(cell, verdict=replace(cell.verdict, failure=failure), repeat=command)


def _short(failure: Failure) -> Failure:
    """`failure` in a few lines, without frames and full text, which would show the user's code."""
    exceptions = tuple(
        ExceptionLink(exception.type, telling_line(exception.message)[:_LINE]) for exception in failure.exceptions
    )
    return replace(failure, exceptions=exceptions, text=telling_line(failure.text)[:_LINE], stack=(), origins=())


def _of_program(cell: Cell, own_recipe: Recipe) -> str:
    """The command that runs the cell on `repro.py`."""
    names = (field.name for field in fields(Recipe)) if cell.compiled else ()
    changed = tuple(name for name in names if getattr(cell.recipe, name) != getattr(own_recipe, name))
    plan = CellPlan(cell.name, cell.recipe, compiled=cell.compiled, overridden=changed, setup=cell.setup)
    return repeat_by_hand("python repro.py", plan, own_recipe.backend)


def _chain(chain: Chain, repeat: Callable[[str], str], shown: str | None, *, other_numbers: bool) -> Chain:
    """`chain` for the bundle. `other_numbers`: the applications have other numbers in `repro.py`."""

    def side(original: Side | None, *, numbered: bool) -> Side | None:
        return original and replace(original, repeat="" if numbered and other_numbers else repeat(original.repeat))

    def link(original: Link) -> Link:
        numbered = original.step == "op"
        where = _STATEMENT_AT.sub("", original.where) if _may_show(original.where, shown) else ""
        return replace(
            original,
            good=side(original.good, numbered=numbered),
            bad=side(original.bad, numbered=numbered),
            where=where,
        )

    def flip(original: Flip) -> Flip:
        return replace(original, repeat=repeat(original.repeat))

    return replace(chain, links=tuple(map(link, chain.links)), flips=tuple(map(flip, chain.flips)))


def _may_show(where: str, shown: str | None) -> bool:
    """Whether the statement in `where` (``program.py:17: y = torch.relu(x)``) is part of the `shown` code."""
    statement = _PLACE_IN_FILE.sub("", where).strip()
    return shown is None or bool(statement and statement in shown)
