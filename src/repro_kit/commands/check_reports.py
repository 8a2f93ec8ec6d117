"""What `check` prints and writes: a table, JSON, JUnit's XML, SARIF, and what a run of GitHub's actions reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import orjson

from repro_kit import __version__
from repro_kit.commands.check_findings import SCHEMA, Comparison, Ending, Finding, Known, Results
from repro_kit.errors import Exit, UsageError
from repro_kit.files import write_atomic
from repro_kit.serialize import to_data
from repro_kit.ui import Ui
from repro_kit.visible import one_line, visible

_SYMBOLS = {"agrees": "✓", "known": "·", "accepted": "·", "new": "✗", "not judged": "!"}
_TAGS = {"new": "failure", "known": "skipped", "accepted": "skipped", "not judged": "error"}  # of JUnit's XML
_MOST_CODE = 20_000  # characters of a repro.py in a summary
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    Ending.FAILS: ("compiled-differs", "Compiled code does not do what eager does."),
    Ending.UNKNOWN: ("not-judged", "Whether compiled code does what eager does is unknown."),
    Ending.AGREES: ("mended", "A failure that the baseline has is mended."),
}


@dataclass(frozen=True)
class Report:
    """Everything that the reports say."""

    results: Results
    found: Comparison
    baseline: Path
    updated: bool  # the baseline was written
    ends: Exit
    strict: bool = False  # what is mended fails the check, too
    notes: tuple[str, ...] = ()

    @property
    def stale(self) -> tuple[Known, ...]:
        """The entries of the baseline that fail the check because they are mended."""
        return self.found.mended if self.strict and not self.updated else ()

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each standing."""
        found = self.found
        return {
            "new": len(found.new),
            "known": len(found.known),
            "mended": len(found.mended),
            "agreeing": len(found.agreeing),
            "not judged": len(found.unjudged),
        }

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        accepted = f" ({len(self.found.accepted)} of them accepted now)" if self.found.accepted else ""
        told = [f"{count} {name}{accepted * (name == 'known')}" for name, count in self.counts.items() if count]
        written = f" {self.baseline} is up to date." if self.updated else ""
        torch = f"; torch {self.results.torch}" if self.results.torch else ""
        return f"{', '.join(told) or 'nothing was checked'}{torch}.{written}"

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints; `results` is what `check` reads again."""
        found = self.found
        return {
            "schema": SCHEMA,
            "exit": int(self.ends),
            "baseline": str(self.baseline),
            "new": [_named(each) for each in found.new],
            "known": [_named(each) for each, _ in found.known],
            "accepted": [_named(each) for each in found.accepted],
            "mended": [_named(each) for each in found.mended],
            "hidden": [_named(each) for each in found.hidden],
            "unjudged": [_named(each) for each in found.unjudged],
            "notes": list(self.notes),
            "results": to_data(self.results),
        }


def _named(each: Finding | Known) -> dict[str, str]:
    words = each.failure if isinstance(each, Known) else each.words
    return {"target": each.target, "check": each.check, "function": each.function, "words": words}


def write(report: Report, junit: Path | None, sarif: Path | None, ui: Ui) -> None:
    """Print the table, write the files that were asked for, and tell GitHub's runner where there is one."""
    findings = report.results.findings
    rows = [
        [f"{ui.symbol(_SYMBOLS[standing])} {standing}", each.target, each.check, each.words, f"{each.seconds:.1f}"]
        for each in findings
        for standing in [report.found.standing(each)]
    ]
    mended = f"{ui.symbol('✗' if report.stale else '✓')} mended"
    rows += [[mended, each.target, each.check, each.failure, ""] for each in report.found.mended]
    ui.table("", ["", "target", "check", "what was seen", "seconds"], rows)
    for finding in (*report.found.new, *report.found.accepted):
        if finding.bundle or finding.no_repro:
            ui.print(f"  {finding.target}: {finding.bundle}{_in_brackets(finding)}")
    cases = dict.fromkeys(each.case for each in findings if each.case and not each.bundle and Path(each.case).is_dir())
    if cases:
        ui.print(f"  Cases that `repro-kit collect` goes on with: {', '.join(cases)}")
    for note in report.notes:
        ui.print(f"  {note}")
    if report.found.mended and not report.updated:
        ui.print("  --update-baseline takes what is mended out of the baseline.")
    ui.print(report.sentence)
    for path, text in ((junit, as_junit), (sarif, as_sarif)):
        if path is not None:
            _write(path, text(report))
    _tell_github(report, ui)
    ui.result(report.as_json())


def _in_brackets(finding: Finding) -> str:
    if not finding.no_repro:
        return ""
    return f" ({finding.no_repro})" if finding.bundle else f"no reduced repro: {finding.no_repro}"


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


def as_junit(report: Report) -> bytes:
    """JUnit's XML: a known failure is skipped, what was not judged is an error."""
    findings, found, stale = report.results.findings, report.found, report.stale
    counts = {"tests": len(findings) + len(stale), "failures": len(found.new) + len(stale)}
    counts |= {"skipped": len(found.known), "errors": len(found.unjudged)}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "repro-kit check"} | _texts(counts))
    for each in findings:
        name = f"{each.check}: {each.function}" if each.function else each.check
        facts = {"classname": each.target, "name": name, "file": each.file, "time": f"{each.seconds:.1f}"}
        case = ElementTree.SubElement(suite, "testcase", {name: one_line(value) for name, value in facts.items()})
        tag = _TAGS.get(found.standing(each))
        if tag is not None:
            known = f"known failure, in {report.baseline}: " if tag == "skipped" else ""
            inner = ElementTree.SubElement(case, tag, {"message": one_line(f"{known}{each.words}")})
            inner.text = visible("\n\n".join(filter(None, [each.words, each.repro])))
    for entry in stale:
        facts = {"classname": entry.target, "name": f"{entry.check}: {entry.function}".rstrip(": ")}
        case = ElementTree.SubElement(suite, "testcase", {name: one_line(value) for name, value in facts.items()})
        ElementTree.SubElement(case, "failure", {"message": one_line(_as_stale(entry, report))})
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode").encode()


def _as_stale(entry: Known, report: Report) -> str:
    return f"mended, and still in {report.baseline}: {entry.failure}"


def _texts(counts: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def as_sarif(report: Report) -> bytes:
    """SARIF 2.1.0: `baselineState` tells what is new and what is known. What is mended stands there if it fails."""
    found = report.found
    told = [(each, "new", "error") for each in found.new]
    told += [(each, "unchanged", "note") for each, _ in found.known]
    told += [(each, "new", "warning") for each in found.unjudged]
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.values()]
    driver = {"name": "repro-kit", "version": __version__, "rules": rules}
    results = [_as_result(*each, elsewhere=str(report.baseline)) for each in told]
    for entry in report.stale:
        words = _as_stale(entry, report)
        gone = Finding(entry.target, entry.check, Ending.AGREES, words, function=entry.function)
        results.append(_as_result(gone, "absent", "error", elsewhere=str(report.baseline)))
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return orjson.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, option=orjson.OPT_INDENT_2)


def _as_result(each: Finding, state: str, level: str, *, elsewhere: str) -> dict[str, Any]:
    """A result; GitHub refuses one without a location, so a target without a file here is at `elsewhere`."""
    file = {"uri": quote(_in_repository(each.file or elsewhere))}
    place = {"artifactLocation": file, "region": {"startLine": max(each.line, 1)}}
    return {
        "ruleId": _RULES[each.ending][0],
        "level": level,
        "baselineState": state,
        "message": {"text": visible(f"{each.target} ({each.check}): {each.words}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"repro-kit/v1": f"{each.target} {each.check} {each.function}"},
    }


def _in_repository(file: str) -> str:
    """The path of a file from the top of the checkout, as GitHub wants it."""
    top = os.environ.get("GITHUB_WORKSPACE")
    path = Path(file).resolve()
    inside = path.relative_to(Path(top).resolve()) if top and path.is_relative_to(Path(top).resolve()) else Path(file)
    return inside.as_posix()


def _tell_github(report: Report, ui: Ui) -> None:
    """Annotate the lines, append to the summary of the job, and set the outputs of the step."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(report):
            ui.print(line)
    for name, text in (("GITHUB_STEP_SUMMARY", as_markdown(report)), ("GITHUB_OUTPUT", _outputs(report))):
        if path := os.environ.get(name):
            _append(name, path, text, ui)


def tell_refusal(sentence: str, code: Exit, ui: Ui) -> None:
    """Annotate the run of GitHub's actions with the one sentence of bad input, where there is a runner."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        ui.print(f"::error title=repro-kit::{_data(sentence)}")
    said = {
        "GITHUB_OUTPUT": f"exit-code={int(code)}\n",
        "GITHUB_STEP_SUMMARY": f"### repro-kit check\n\n{_cell(sentence)}\n\n",
    }
    for name, text in said.items():
        if path := os.environ.get(name):
            _append(name, path, text, ui)


def _append(name: str, path: str, text: str, ui: Ui) -> None:
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        ui.warn(f"{name} names {path}, which cannot be written: {error.strerror}.")


def _outputs(report: Report) -> str:
    counts = {name.replace(" ", "-"): count for name, count in report.counts.items()}
    return "".join(f"{name}={value}\n" for name, value in {"exit-code": int(report.ends), **counts}.items())


def workflow_commands(report: Report) -> Iterator[str]:
    """The workflow commands: an error for what is new or was not judged, a notice for what is mended."""
    for each in (*report.found.new, *report.found.unjudged):
        title = "not judged" if each.ending is Ending.UNKNOWN else "compiled differs from eager"
        place = f"file={_property(_in_repository(each.file))},line={max(each.line, 1)}," if each.file else ""
        told = f"{each.target} ({each.check}): {each.words}"
        yield f"::error {place}title={_property(f'repro-kit: {title}')}::{_data(told)}"
    level = "error" if report.stale else "notice"
    for entry in report.found.mended:
        yield f"::{level} title=repro-kit%3A mended::{_data(f'{entry.target} ({entry.check}): {entry.failure}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_markdown(report: Report) -> str:
    """The summary of a job: a table, and the code of each new failure."""
    lines = [f"### repro-kit check: {report.sentence}", "", "| | target | check | what was seen |", "|---|---|---|---|"]
    for each in report.results.findings:
        standing = report.found.standing(each)
        lines.append(_row(f"{_SYMBOLS[standing]} {standing}", each.target, each.check, each.words))
    mended = f"{'✗' if report.stale else '✓'} mended"
    lines += [_row(mended, each.target, each.check, each.failure) for each in report.found.mended]
    lines += ["", *map(_cell, report.notes)] if report.notes else []
    for each in (*report.found.new, *report.found.accepted):
        if each.repro:
            code = visible(each.repro[:_MOST_CODE]).rstrip()
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
            lines += ["", f"**{_cell(each.target)}**: the reduced repro", "", f"{fence}python", code, fence]
    return "\n".join([*lines, "", ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    text = one_line(text).replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("<", "&lt;").replace("`", "\\`")
