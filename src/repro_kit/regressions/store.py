"""The history of a farm in SQLite: one writer, any number of readers (write-ahead log)."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from packaging.version import InvalidVersion, Version

from repro_kit.errors import UsageError
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.regressions.build import Build
from repro_kit.regressions.groups import CaseFacts
from repro_kit.regressions.lifecycle import State
from repro_kit.regressions.release import Batch, BatchKey
from repro_kit.regressions.unit import UnitResult
from repro_kit.serialize import encoded, from_data, to_data

SCHEMA = 4
_READABLE = (0, 2, 3, SCHEMA)  # 0: an empty file; 2: without the tables of nights; 3: without metrics
_METRICS = "ALTER TABLE units ADD COLUMN metrics TEXT NOT NULL DEFAULT ''"
_OUTCOMES = {outcome.value: outcome for outcome in RunOutcome}
HISTORY = "history.sqlite"
IMPORTED = "results of "  # begins the source of a case that has results and no files
_ID = re.compile(r"[0-9a-f]{64}")
#: A link without a login, in characters that are what they seem to be.
_LINK = re.compile(r"https?://[\w-]+(?:\.[\w-]+)*(?::\d+)?(?:[/?#](?:(?![\"'()`\\<>])[!-~])*)?", re.ASCII)

_TABLES = """
CREATE TABLE IF NOT EXISTS cases (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, source TEXT NOT NULL, added TEXT NOT NULL,
    facts TEXT NOT NULL, state TEXT NOT NULL, since TEXT NOT NULL, evidence TEXT NOT NULL, original TEXT,
    issue TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS builds (
    number INTEGER PRIMARY KEY, line TEXT NOT NULL, name TEXT NOT NULL, version TEXT, date TEXT, position INTEGER,
    UNIQUE (line, name));
CREATE TABLE IF NOT EXISTS units (
    case_number INTEGER NOT NULL, build_number INTEGER NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL,
    failed INTEGER NOT NULL, passed INTEGER NOT NULL, note TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL,
    failure TEXT NOT NULL DEFAULT '', metrics TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (case_number, build_number, attempt)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS transitions (
    number INTEGER PRIMARY KEY, case_number INTEGER NOT NULL, at TEXT NOT NULL, before TEXT NOT NULL,
    after TEXT NOT NULL, evidence TEXT NOT NULL, command TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS transitions_of ON transitions (case_number);
CREATE TABLE IF NOT EXISTS lines (name TEXT PRIMARY KEY, words TEXT NOT NULL, tracked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS nights (number INTEGER PRIMARY KEY, build TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS last_seen (
    name TEXT PRIMARY KEY, build TEXT NOT NULL, outcome TEXT NOT NULL, failure TEXT NOT NULL);
"""

_HANGS = ", ".join(f"'{kind}'" for kind in Kind if kind.policy.hangs)
#: Of a row of `units`: the run shows nothing by itself, or it is one that did not end.
_SILENT = (
    f"(outcome IN ('{RunOutcome.CANNOT_TELL}', '{RunOutcome.INVALID}')"
    f" OR json_extract(nullif(failure, ''), '$.kind') IN ({_HANGS})"
    f" OR (failed > 0 AND json_extract(facts, '$.signature.kind') IN ({_HANGS})))"
)
#: The cases that have passed or failed on a line.
_ABLE = (
    "able AS (SELECT DISTINCT case_number, line FROM units JOIN builds ON builds.number = build_number "
    f"WHERE outcome IN ('{RunOutcome.PASSES}', '{RunOutcome.FAILS_ALIKE}'))"
)


@dataclass(frozen=True)
class FarmCase:
    """A case of the farm. `id` is the SHA-256 of its files."""

    id: str
    name: str
    source: str
    added: str  # ISO 8601
    facts: CaseFacts
    state: State = State.NEW
    since: str = ""  # when it came into this state, ISO 8601
    evidence: str = ""
    original: str | None = None  # id of the case that this one duplicates
    issue: str = ""  # link to the issue that was filed

    @property
    def is_imported(self) -> bool:
        """Whether it is a test that somebody else runs: only its results are here."""
        return self.source.startswith(IMPORTED)


@dataclass(frozen=True)
class Transition:
    """One change of a case's state, its evidence, and the command that repeats it."""

    case: str
    at: str
    before: State
    after: State
    evidence: str
    command: str


class FarmStore:
    """The history in the directory `directory`. Methods that write need the farm's lock, which the caller holds."""

    def __init__(self, directory: Path, *, create: bool = False, writes: bool = False) -> None:
        """Open the history. Raises UsageError if there is none (without `create`), or if it is damaged.

        `writes`: a history of an earlier version is brought up to date.
        """
        path = directory / HISTORY
        if not create and not path.is_file():
            raise UsageError(f"{directory} is not a farm; `repro-kit farm add --farm {directory} BUNDLE` makes one.")
        try:
            self._db = sqlite3.connect(path, timeout=60)
            self._db.row_factory = sqlite3.Row
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in _READABLE:
                schemas = f"schema {version}, this one knows {SCHEMA}"
                raise UsageError(f"{path} was written by another repro-kit ({schemas}); use that one, or a new farm.")
            self._metrics = "metrics" if version in (0, SCHEMA) or create or writes else "''"
            if not version or ((create or writes) and version != SCHEMA):
                self._db.execute("PRAGMA journal_mode = WAL")
                more = f"{_METRICS};" if version else ""
                self._db.executescript(f"BEGIN; {_TABLES} {more} PRAGMA user_version = {SCHEMA}; COMMIT;")
        except sqlite3.Error as error:
            raise UsageError(f"{path} cannot be used as the history of a farm: {error}.") from error

    def close(self) -> None:
        """Close the history."""
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All changes in this block are made together, or not at all."""
        with self._db:
            yield

    # -- cases -----------------------------------------------------------------------------------------------------

    def add(self, case: FarmCase) -> None:
        """Add a case that is not there yet."""
        self._db.execute(
            "INSERT INTO cases (id, name, source, added, facts, state, since, evidence, original, issue) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(case.id, case.name, case.source, case.added, encoded(to_data(case.facts)).decode()),
                *(case.state, case.since, case.evidence, case.original, case.issue),
            ),
        )

    def cases(self) -> list[FarmCase]:
        """All cases, in the order in which they were added."""
        return [_case(row) for row in self._db.execute("SELECT * FROM cases ORDER BY number")]

    def case(self, id: str) -> FarmCase | None:
        """The case with this id."""
        row = self._db.execute("SELECT * FROM cases WHERE id = ?", (id,)).fetchone()
        return _case(row) if row else None

    def move(self, transition: Transition, original: str | None = None) -> None:
        """Bring a case into another state, and remember why."""
        self._db.execute(
            "UPDATE cases SET state = ?, since = ?, evidence = ?, original = ? WHERE id = ?",
            (transition.after, transition.at, transition.evidence, original, transition.case),
        )
        self._db.execute(
            "INSERT INTO transitions (case_number, at, before, after, evidence, command) "
            "SELECT number, ?, ?, ?, ?, ? FROM cases WHERE id = ?",
            (
                *(transition.at, transition.before, transition.after, transition.evidence, transition.command),
                transition.case,
            ),
        )

    def set_evidence(self, case: str, evidence: str) -> None:
        """Renew the evidence of a case that stays in its state."""
        self._db.execute("UPDATE cases SET evidence = ? WHERE id = ?", (evidence, case))

    def set_issue(self, case: str, link: str) -> None:
        """Remember the issue of a case."""
        self._db.execute("UPDATE cases SET issue = ? WHERE id = ?", (link, case))

    def transitions(self, case: str | None = None) -> list[Transition]:
        """The changes of one case or of all, oldest first."""
        rows = self._db.execute(
            "SELECT cases.id, at, before, after, transitions.evidence, command FROM transitions "
            "JOIN cases ON cases.number = case_number WHERE ? IS NULL OR cases.id = ? ORDER BY transitions.number",
            (case, case),
        )
        return [Transition(row[0], row[1], State(row[2]), State(row[3]), row[4], row[5]) for row in rows]

    # -- builds ----------------------------------------------------------------------------------------------------

    def list_builds(
        self, line: str, words: str, builds: Sequence[Build], *, keep: bool = False, tracked: bool = True
    ) -> None:
        """Remember the builds of a line, oldest first. `words`: the options that choose the line on a command line.

        `keep`: what is known of the line already stays. `tracked`: the line decides the states of the cases.
        """
        self._db.executemany(
            "INSERT INTO builds (line, name, version, date, position) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (line, name) DO UPDATE SET version = excluded.version, date = excluded.date, "
            "position = excluded.position",
            [(line, build.name, build.version, build.date, at) for at, build in enumerate(builds)],
        )
        how = "IGNORE" if keep else "REPLACE"
        self._db.execute(f"INSERT OR {how} INTO lines VALUES (?, ?, ?)", (line, words, int(tracked)))

    def builds_of(self, line: str) -> list[tuple[str, str | None, str | None]]:
        """The builds of a line as they were listed: name, version, day."""
        rows = self._db.execute("SELECT name, version, date FROM builds WHERE line = ? ORDER BY position", (line,))
        return [tuple(row) for row in rows]

    def builds(self) -> dict[str, list[str]]:
        """The names of the builds of each line, oldest first."""
        rows = self._db.execute("SELECT line, name, version, date, position FROM builds ORDER BY line")
        lines: defaultdict[str, list[sqlite3.Row]] = defaultdict(list)
        for row in rows:
            lines[row["line"]].append(row)
        return {line: [row["name"] for row in sorted(members, key=_order)] for line, members in lines.items()}

    def tracked(self) -> dict[str, str]:
        """The lines that must all pass before a case is closed, each with the options that choose it."""
        rows = self._db.execute(
            "SELECT name, words FROM lines WHERE tracked AND name IN "
            "(SELECT line FROM builds WHERE number IN (SELECT DISTINCT build_number FROM units)) ORDER BY name"
        )
        return dict(map(tuple, rows))

    def untrack(self, line: str) -> None:
        """Ignore a line when deciding a case's state, until builds of it are run again."""
        self._db.execute("UPDATE lines SET tracked = 0 WHERE name = ?", (line,))

    # -- units -----------------------------------------------------------------------------------------------------

    def record(self, results: Iterable[UnitResult]) -> None:
        """Take up the results of units. One that is known already stays as it is."""
        self._db.executemany(
            "INSERT OR IGNORE INTO units SELECT cases.number, builds.number, ?, ?, ?, ?, ?, ?, ?, ?, ? "
            "FROM cases, builds WHERE cases.id = ? AND builds.line = ? AND builds.name = ?",
            [
                (
                    *(unit.attempt, unit.outcome, unit.failed, unit.passed, unit.note, unit.seconds, unit.at),
                    *(_written(unit.failure), encoded(unit.metrics).decode() if unit.metrics else ""),
                    *(unit.case, unit.line, unit.build),
                )
                for unit in results
            ],
        )

    def units(self, case: str) -> Iterator[UnitResult]:
        """The results of one case, by build."""
        return (unit for unit, _ in self._units(case))

    def _units(self, case: str) -> Iterator[tuple[UnitResult, bool]]:
        """The results of one case, and whether each shows nothing, or did not end."""
        rows = self._db.execute(
            "SELECT builds.name, outcome, failed, passed, note, seconds, attempt, at, failure, line, "
            f"{self._metrics}, {_SILENT} FROM units JOIN builds ON builds.number = build_number "
            "JOIN cases ON cases.number = case_number WHERE cases.id = ? ORDER BY build_number, attempt",
            (case,),
        )
        for name, outcome, failed, passed, note, seconds, attempt, at, failure, line, metrics, silent in rows:
            runs = (failed, passed, note, seconds, attempt, at, _read(failure))
            samples = tuple(map(tuple, orjson.loads(metrics))) if metrics else ()
            unit = UnitResult(name, _OUTCOMES[outcome], *runs, case=case, line=line, metrics=samples)
            yield unit, bool(silent)

    def verdicts(self, case: str, down: Collection[BatchKey] = ()) -> dict[str, dict[str, UnitResult]]:
        """The results of one case by line and build, each with all its attempts added up.

        `down`: the batches of outages, in which a run that shows nothing, or does not end, is no result.
        """
        verdicts: defaultdict[str, dict[str, UnitResult]] = defaultdict(dict)
        for unit, is_silent in self._units(case):
            if is_silent and (unit.line, unit.build, unit.attempt) in down:
                continue
            line = verdicts[unit.line]
            line[unit.build] = line[unit.build] + unit if unit.build in line else unit
        return dict(verdicts)

    def batches(self) -> list[Batch]:
        """The units that ran together: of each build and attempt, those of cases that have passed or failed before."""
        rows = self._db.execute(
            f"WITH {_ABLE} SELECT builds.line, builds.name, attempt, count(*), sum({_SILENT}), "
            f"max(CASE WHEN {_SILENT} THEN note ELSE '' END), max(at) "
            "FROM units JOIN builds ON builds.number = build_number JOIN cases ON cases.number = units.case_number "
            "JOIN able ON able.case_number = units.case_number AND able.line = builds.line "
            f"GROUP BY build_number, attempt HAVING sum({_SILENT}) > 0 ORDER BY build_number, attempt"
        )
        return [Batch(*row) for row in rows]

    def ran(self) -> set[tuple[str, str]]:
        """The lines and builds with results."""
        return set(
            map(
                tuple,
                self._db.execute("SELECT line, name FROM builds WHERE number IN (SELECT build_number FROM units)"),
            )
        )

    def measured(self) -> list[str]:
        """The ids of the cases whose runs have measured something."""
        rows = self._db.execute(
            "SELECT DISTINCT cases.id FROM units JOIN cases ON cases.number = case_number "
            f"WHERE {self._metrics} != '' ORDER BY cases.id"
        )
        return [row[0] for row in rows]

    def busy_builds(self) -> dict[str, list[str]]:
        """Of each line, the builds on which at least half of the cases that can have passed or failed."""
        able = dict(map(tuple, self._db.execute(f"WITH {_ABLE} SELECT line, count(*) FROM able GROUP BY line")))
        rows = self._db.execute(
            "SELECT line, builds.name, count(DISTINCT case_number) FROM units JOIN builds ON number = build_number "
            f"WHERE outcome IN ('{RunOutcome.PASSES}', '{RunOutcome.FAILS_ALIKE}') GROUP BY build_number"
        )
        busy: defaultdict[str, list[str]] = defaultdict(list)
        for line, build, count in rows:
            if 2 * count >= able.get(line, 0):
                busy[line].append(build)
        return dict(busy)

    def seconds(self) -> dict[str, float]:
        """The mean seconds of a unit of each case that has run."""
        rows = self._db.execute(
            "SELECT cases.id, avg(seconds) FROM units JOIN cases ON cases.number = case_number GROUP BY case_number"
        )
        return dict(map(tuple, rows))

    # -- nights ----------------------------------------------------------------------------------------------------

    def last_night(self) -> tuple[str | None, dict[str, UnitResult]]:
        """The build of the last night (None: there was none), and each case's last result, by name."""
        night = self._db.execute("SELECT build FROM nights ORDER BY number DESC LIMIT 1").fetchone()
        rows = self._db.execute("SELECT name, build, outcome, failure FROM last_seen")
        seen = {name: UnitResult(build, _OUTCOMES[state], failure=_read(text)) for name, build, state, text in rows}
        return night[0] if night else None, seen

    def end_night(self, build: str, last: Mapping[str, UnitResult]) -> None:
        """Remember what the next night is compared with."""
        self._db.execute("INSERT INTO nights (build) VALUES (?)", (build,))
        self._db.execute("DELETE FROM last_seen")
        self._db.executemany(
            "INSERT INTO last_seen VALUES (?, ?, ?, ?)",
            [(name, seen.build, seen.outcome, _written(seen.failure)) for name, seen in last.items()],
        )


def _written(failure: Signature | None) -> str:
    return encoded(to_data(failure)).decode() if failure else ""


def _read(failure: str) -> Signature | None:
    return from_data(orjson.loads(failure), Signature) if failure else None


def _case(row: sqlite3.Row) -> FarmCase:
    """A case of the history, which may be a stranger's: ids become paths and links, and an issue becomes a link."""
    for id in filter(None, (row["id"], row["original"])):
        if not _ID.fullmatch(str(id)):
            raise UsageError(f"The history of the farm is damaged: {str(id)[:80]!r} is not the id of a case.")
    facts = from_data(orjson.loads(row["facts"]), CaseFacts)
    return FarmCase(
        row["id"],
        row["name"],
        row["source"],
        row["added"],
        facts,
        State(row["state"]),
        row["since"],
        row["evidence"],
        row["original"],
        row["issue"] if _LINK.fullmatch(str(row["issue"])) else "",
    )


def _order(row: sqlite3.Row) -> tuple[Any, ...]:
    """Oldest first: nightlies by day, other versions by version, builds without a version as they were listed."""
    try:
        version = Version(row["version"] or "")
    except InvalidVersion:
        return (1, "", Version("0"), row["position"])
    day = row["date"] or "" if version.is_devrelease else ""
    return (0, day, version, row["position"])
