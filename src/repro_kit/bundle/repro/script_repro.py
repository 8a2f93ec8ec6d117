"""Write what runs a script of a bundle, and checks for the same failure.

For the user's own files this is `repro.py`. A reduced script is `repro.py` itself, and this is its `check.py`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from repro_kit.artefact.recipe_code import literal
from repro_kit.bundle.facts import Facts
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.repro.check_program import pattern, raw, silent
from repro_kit.bundle.repro.source_files import PLACE, SourceFiles
from repro_kit.case.case import Subject
from repro_kit.failure.failure import STATE
from repro_kit.failure.kinds import Kind
from repro_kit.failure.tracebacks import OTHER_STATE

#: Seconds after which a reduced script hangs, with the start of the interpreter.
HANG = 40
_RUN_SCRIPT = """del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")"""
_RUN_MODULE = """del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)"""

#: Names of torch.export, AOTInductor and precompilation, which TORCH_COMPILE_DISABLE does not switch off.
_EXPORTS = re.compile(rb"torch\.export|\bdraft_export\b|\baoti?_compile|\baoti_load_package\b|\bprecompile\b")
#: Operators whose functions torch traces in eager too (`_set_compilation_env`, torch/_higher_order_ops/utils.py).
_OPERATORS = re.compile(
    rb"_higher_order_ops|\b(cond|while_loop|associative_scan|flex_attention|nested_compile_region)\("
)
_DIFFERS = 3  # exit status of a run in which a compiled call differs from eager
_WIDTH = 98
_EXIT_STATUS = "Exit status: 1 if it fails as expected, 0 if it passes, 125 if it cannot run here or fails otherwise."


def render_script(
    subject: Subject,
    sources: SourceFiles,
    facts: Facts,
    *,
    why: str,
    limit: int,
    traced: bool,
    env: Mapping[str, str] | None = None,
    reduced: str = "",
    ranks: int = 0,
) -> str:
    """The text of `repro.py`, or with `reduced` of `check.py`.

    `ranks`: the processes that it starts for the command, as torchrun does; 0 for a command that torchrun does not run.

    `why` says why there is no minimal program. `limit`: seconds. `traced`: the failure shows only in the output or in
    torch's trace, because the user's command continues after it. `env`: variables for the command. `reduced`: the
    reduction of the script in words; empty for the user's own files.
    """
    kind = facts.signature.kind
    measure = str(kind) if kind.policy.counted else ""
    return render(
        "script_repro.py.j2",
        header=_header(facts, why, reduced),
        command=_command(subject, sources),
        roots=literal(list(sources.roots)) if sources.roots else "",
        expected=raw(pattern(facts)),
        hangs=kind.policy.hangs,
        crashes=kind is Kind.CRASH,
        limit=limit,
        traced=traced or bool(measure),
        measure=measure,
        most=facts.failure.measured.limit if facts.failure and facts.failure.measured else 0,
        unit=kind.policy.counted,
        place=PLACE,
        env=[(literal(name), literal(value)) for name, value in sorted((env or {}).items())],
        eager_runner=_eager_runner(subject, sources),
        exports=_mention(sources, _EXPORTS),
        operators=_mention(sources, _OPERATORS),
        is_users=not reduced,
        skipped=2 if subject.form == "module" else 1,
        ranks=ranks,
        waits=ranks > 1 and kind is Kind.DEADLOCK and subject.form == "script",
        in_eager=facts.in_eager,
        silent=silent(facts),
        run_script=_RUN_SCRIPT,
        compared=_compared(subject, sources, facts),
        validation=kind.policy.eager_raises,
        differs=_DIFFERS,
        search=subject.form == "command" and not _is_python(subject.argv[0]),
    )


def _eager_runner(subject: Subject, sources: SourceFiles) -> str:
    """Python code that runs the command with eager forced; empty if the command does not need it."""
    needed = any(_mention(sources, words) for words in (re.compile(rb"fullgraph"), _EXPORTS, _OPERATORS))
    return _runner(subject, sources) if needed else ""


def _runner(subject: Subject, sources: SourceFiles) -> str:
    """Python code that runs the command within an interpreter; empty if the command starts something else."""
    match subject.form:
        case "script":
            return _RUN_SCRIPT
        case "module":
            return _RUN_MODULE
    words = sources.argv
    return _RUN_SCRIPT if _is_python(words[0]) and len(words) > 1 and words[1].endswith(".py") else ""


#: Kinds of difference that a comparison of values does not show.
_LEFT = ("alias", "random", "warning")


@dataclass(frozen=True)
class _Compared:
    """How the compiled calls of a script are compared with eager, as the template takes it."""

    runner: str  # code that runs the script
    options: str  # further arguments of `assert_close`
    state: bool  # what differs is the Python state that a call leaves
    exports: bool  # the script may export
    left: str = ""  # what differs besides values: "alias", "random" or "warning"
    state_words: str = OTHER_STATE


def _compared(subject: Subject, sources: SourceFiles, facts: Facts) -> _Compared | None:
    """How to compare the calls of a script that itself shows nothing; None for another failure or command."""
    failure, runner = facts.failure, _runner(subject, sources)
    if not facts.signature.kind.policy.compared or failure is None or not runner:
        return None
    if (failure.exceptions and facts.signature.kind is Kind.ACCURACY) or failure.exit_status:
        return None
    options = "check_stride=True" if facts.signature.difference == "stride" else ""
    if facts.signature.difference == STATE:
        options = "rtol=1e-3, atol=1e-3"  # as digests of a state are compared, where rounding is no difference
    elif failure.tolerance is not None:
        options = ", ".join([*filter(None, [options]), "rtol={}, atol={}".format(*failure.tolerance)])
    exports = facts.signature.kind is Kind.ACCURACY and _mention(sources, _EXPORTS)
    left = facts.signature.difference if facts.signature.difference in _LEFT else ""
    return _Compared(runner, options, state=facts.signature.difference == STATE, exports=exports, left=left or "")


def _mention(sources: SourceFiles, words: re.Pattern[bytes]) -> bool:
    return any(words.search(path.read_bytes()) for path in sources.files.values())


def _header(facts: Facts, why: str, reduced: str) -> str:
    if reduced:
        runs = "Runs repro.py, and answers for `git bisect run python check.py` and for CI."
        return f"{runs}\n\n{_EXIT_STATUS}"
    paragraphs = [
        f"NOT MINIMIZED: {facts.signature_line}",
        f"This script runs the user's own files in {PLACE}/. {why}",
        f"Fails with: {facts.failure_line}" if facts.failure_line != facts.signature_line else "",
        facts.moved,
        facts.evidence,
        f"Seen with {facts.seen_with}.",
        _EXIT_STATUS,
    ]
    return "\n\n".join(textwrap.fill(part, _WIDTH, break_on_hyphens=False) for part in paragraphs if part)


def _command(subject: Subject, sources: SourceFiles) -> str:
    words = [literal(word) for word in sources.argv]
    match subject.form:
        case "script":
            return f"[{', '.join(['sys.executable', *words])}]"
        case "module":
            return f"[{', '.join(['sys.executable', literal('-m'), *words])}]"
    if _is_python(subject.argv[0]):
        return f"[{', '.join(['sys.executable', *words[1:]])}]"
    name = literal(PurePath(subject.argv[0]).name)
    return f"[{', '.join([f'installed({name})', *words[1:]])}]"


def _is_python(word: str) -> bool:
    return bool(re.fullmatch(r"python[\d.]*(?:\.exe)?", PurePath(word).name))
