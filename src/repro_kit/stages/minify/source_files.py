"""The script of a case as one source program, and the ways to run it when it has several ranks."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from repro_kit.bundle.repro.source_files import find_sources, module_file, source_text
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION
from repro_kit.runner.read_findings import read_findings
from repro_kit.script import CannotFold, ModuleText, Script, fold
from repro_kit.script.ranks import alone, joins_group, started_outside
from repro_kit.stages.minify.pytest_script import ChosenTest, failed_test, runs_unittest, script_of
from repro_kit.subject.subject_check import launch_in, rank_subject
from repro_kit.verdicts.deadlocks import latest
from repro_kit.verdicts.observed_failures import tail
from repro_kit.verdicts.ranks import suspects

_MAIN = "__main__"


def folded(case: Case) -> Script:
    """The script of the case with the user's modules that it imported when it ran. Raises CannotFold."""
    subject = case.file.subject
    files = read_findings(case.path / "observe" / "probe").module_files
    main, arguments = _main(case, files)
    if not files:  # the process died before it wrote what it had imported
        files = _by_place(rank_subject(subject), main)
    packages = {PurePath(path).parent for path in files.values() if PurePath(path).name == "__init__.py"}
    modules = {name: Path(path) for name, path in files.items() if name != _MAIN}

    def find(name: str) -> ModuleText | None:
        path = modules.get(name)
        if path is None or not path.is_file():
            return None
        is_package = path.parent in packages and path.name == "__init__.py"
        return ModuleText(name, source_text(path), name if is_package else name.rpartition(".")[0])

    test = test_of(case)
    text = source_text(main)
    if test is not None:
        text = script_of(text, test, [source_text(file) for file in test.conftests(Path(subject.cwd))])
    return fold(ModuleText(_MAIN, text, _package(subject, main, files)), find, arguments)


def main_file(case: Case) -> Path:
    """The file that is run as a script. Raises CannotFold."""
    return _main(case, read_findings(case.path / "observe" / "probe").module_files)[0]


def test_of(case: Case) -> ChosenTest | None:
    """The test of pytest or unittest that is reduced; None for another subject. Raises CannotFold."""
    observation = case.current(OBSERVATION)
    chosen = observation.failures[case.file.failure_index :] if observation is not None else ()
    raised = chosen[0].failure.exceptions[:1] if chosen else ()
    error = f"{raised[0].type}: {raised[0].message}" if raised else ""
    subject, observed = case.file.subject, case.path / "observe"
    if runs_unittest(subject):
        files = read_findings(observed / "probe").module_files
        return failed_test(tail(observed / "stderr.txt"), raised[0].message if raised else "", files)
    return ChosenTest.of(subject, tail(observed / "stdout.txt"), error)


def ranks_of(subject: Subject) -> int:
    """The processes that run the script: several if a launcher starts them, 0 if it does not give their number."""
    launch = launch_in(subject)
    return launch.ranks if launch is not None else 1


def _main(case: Case, files: Mapping[str, str]) -> tuple[Path, tuple[str, ...]]:
    """The file that is run as a script, and the words after it."""
    subject = case.file.subject
    if launch_in(subject) is not None:  # the file that was run first is the launcher's
        subject, files = rank_subject(subject), {}
    cwd = Path(subject.cwd)
    words = list(subject.argv)
    test = test_of(case)
    if test is not None:
        main = cwd / test.file
        if not main.is_file():
            raise CannotFold(f"the file of {test.file} is not known")
        return main, ()
    if subject.form == "command":
        is_python = re.fullmatch(r"python[\d.]*", PurePath(words[0]).name)
        if not is_python or len(words) < 2 or not words[1].endswith(".py"):
            raise CannotFold(f"{PurePath(words[0]).name} runs the script in its own way")
        words = words[1:]
    main = Path(files.get(_MAIN) or module_file(subject) or cwd / words[0])
    if not main.is_file():
        raise CannotFold(f"the file of {words[0]} is not known")
    return main, tuple(words[1:])


def _package(subject: Subject, main: Path, files: Mapping[str, str]) -> str:
    names = (name for name in files if not name.startswith("__"))  # __main__, and __mp_main__ of a spawned process
    imported_as = next((name for name in names if Path(files[name]) == main), None)
    if imported_as is not None:  # a test, which pytest imports
        return imported_as.rpartition(".")[0]
    subject = rank_subject(subject)
    if subject.form != "module":
        return ""
    return subject.argv[0] if main.name == "__main__.py" else subject.argv[0].rpartition(".")[0]


def _by_place(subject: Subject, main: Path) -> dict[str, str]:
    """The modules that the files seem to import, by their path next to the script or in the working directory."""
    found: dict[str, str] = {}
    cwd = Path(subject.cwd)
    roots = (cwd,) if subject.form == "module" else (main.parent, cwd)
    for path in find_sources(subject, ()).files.values():
        root = next((root for root in roots if path.is_relative_to(root)), None)
        if root is not None and path != main:
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = str(path)
    return found


def third_party(program: Script) -> list[str]:
    """The packages that a source program imports, other than torch and the standard library."""
    names = {name.partition(".")[0] for name in re.findall(r"^\s*(?:import|from) ([\w.]+)", program.text, re.MULTILINE)}
    return sorted(names - {"torch", *sys.stdlib_module_names})


_ALONE = 2  # ranks that are tried alone


@dataclass(frozen=True)
class RankView:
    """A script, the number of processes that run it, and what that leaves out, in words."""

    program: Script
    ranks: int = 1
    note: str = ""
    without_group: str = ""  # the note if what is left of the script joins no process group

    def note_of(self, reduced: Script) -> str:
        """The note on what is left of the script."""
        return self.note if joins_group(reduced) else self.without_group or self.note


def rank_views(case: Case, program: Script, *, together: bool) -> Iterator[RankView]:
    """The ways to run `program`, the cheapest first. A script of one process has one.

    `together`: the failure needs at least two ranks.
    """
    findings = read_findings(case.path / "observe" / "probe")
    states = latest(findings)
    launched = ranks_of(case.file.subject) or len(states)
    size = states[0].size if states else launched
    if size < 2:
        yield RankView(program)
        return
    ranks = () if together else suspects(case.path / "observe" / "trace", findings) or (0,)
    for rank in ranks[:_ALONE]:
        fails = f"rank {rank} of {size} fails alone"
        yield RankView(
            alone(program, rank, size),
            note=f"{fails}, in a fake process group whose collectives make up their results",
            without_group=f"{fails}, without a process group",
        )
    outside = started_outside(program)
    if launched > 1 or outside != program:
        for fewer in dict.fromkeys((2, size)):
            yield RankView(outside, fewer, f"{fewer} of {size} ranks are enough" if fewer < size else "")
