"""Find torch's lines in a text, whatever a terminal, a container or a launcher wrote before each of them.

A line of torch has a *stamp* (level, time, process, place). What stands before it is a *head*. The heads of a text are
learnt first, so that lines without a stamp lose theirs, and the lines of two containers are told apart.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import orjson

_ID = r"(?:!\d+(?:/\d+/\d+)?|\d+/\d+)"
_RANK = r"(?:\[[a-z]\w*?(?P<{}>\d{{1,9}})\]:? ?)"
#: ``[rank0]:V0716 12:00:00.123456 1234 torch/_dynamo/guards.py:123] ``, as torch 2.4 and newer write.
_FULL = (
    rf"{_RANK.format('rank')}?(?P<level>[VDIWEC])(?P<time>\d{{4}} \d\d:\d\d:\d\d[.,]\d+) (?P<pid>\d{{1,18}}) "
    r"(?P<where>[^\s\[\]][^\[\]\n]{0,300}?:\d{1,9})\] ?"
)
#: ``[2024-02-01 12:00:00,123] [0/0] torch._dynamo.guards.__recompiles: [DEBUG] ``, of torch 2.0 to 2.2; without its
#: time, as people shorten it.
_OLD = (
    rf"{_RANK.format('rank_')}?(?:\[(?P<clock>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+)\] ?)?"
    rf"(?:\[(?P<id_>{_ID})(?:_(?P<attempt_>\d{{1,9}}))?\] ?)?(?P<logger>\btorch[\w.]*): \[(?P<level_>[A-Z]+)\] ?"
)
#: What people keep of a stamp: ``guards.py:123] [0/1] [__recompiles] ``, ``[0/1] [__recompiles] ``.
_SHORT = (
    r"(?:\b[VDIWEC] )?(?:\b[\w./-]{1,200}\.py:\d{1,9}\] ?)?"
    rf"(?:\[(?P<id__>{_ID})(?:_(?P<attempt__>\d{{1,9}}))?\] ?"
    r"(?:\[(?P<tag_>__[a-z]\w+)\] ?"
    r"|(?=torch\._dynamo hit config\.|\s+(?:function: '|last reason: )|To \w+ (?:all )?recompilation ))"
    r"|\[(?P<tag__>__(?:recompiles(?:_verbose)?|graph_breaks|guards))\] ?)"
)
_STAMP = re.compile(f"{_FULL}|{_OLD}|{_SHORT}")
_COMPILE = re.compile(rf"\[(?P<id>{_ID})(?:_(?P<attempt>\d{{1,9}}))?\] ?")
_TAG = re.compile(r"\[(?P<tag>__\w+)\] ?")
_TORCH = re.compile(r"(?:^|/)(?:torch|functorch)/")
#: Messages that are recognised without a stamp, wherever they stand in a line.
_BARE = re.compile(
    r"(?:\(['\"])?Recompiling function \S+ in (?:.+:\d{1,9}\s*$|.+?['\"], ['\"]triggered by )"
    r"|Graph break (?:\(user stack suppressed [^)]*\) )?in user code at .+:\d{1,9}"
    r"|(?:torch\._dynamo|torchdynamo) hit config\.\w+ \(\d|(?:torch\._dynamo\.exc\.)?FailOnRecompileLimitHit: "
)
#: ``('Recompiling function f in a.py', "triggered by the following guard failure: x == 1")``, of torch 2.0 and 2.1.
_PAIR = re.compile(
    r"\((['\"])(?P<head>Recompiling function .+?)\1, (['\"])(?P<by>triggered by the following guard failures?): "
    r"(?P<reasons>.*)\3\)\s*$"
)
_RANKED = re.compile(r"\[(?:rank(?P<rank>\d{1,9})\]:? ?|[a-z]\w*?(?P<local>\d{1,9})\]:)")
#: Colours and cursor movements, also those whose escape character was lost in a copy.
_ANSI = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]"
    r"|(?:\^\[|\\x1b|\\u001b|\\033|\u241b)?\[\d{1,3}(?:;\d{1,3})*m"
)
_REPEATED = re.compile(r" *\[repeated \d+x across [^\]]*\].*$")  # Ray
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"
    r"|(?:[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?"
)
_BAR = re.compile(r"\d%\||\d(?:it/s|s/it)")
_MOST_HEADS = 40
_SEARCHED = 20_000  # characters of a line in which a stamp is looked for
_BIGGEST_PID = 1 << 22  # a larger number is a thread's, as torch before 2.5 writes


@dataclass(frozen=True)
class Stamp:
    """What torch says of a line: `place` tells messages apart, `each` says that torch stamps each line of a message."""

    place: tuple[str, ...]
    level: str = ""
    time: str = ""
    pid: int = 0
    rank: int | None = None
    tag: str = ""
    compile_id: str | None = None
    attempt: int = 0


@dataclass(frozen=True)
class LogLine:
    """A line without its head and stamp. `stream` tells apart the processes whose lines are mixed in one text."""

    text: str
    stream: str = ""
    stamp: Stamp | None = None
    rank: int | None = None


def _stamps(line: str) -> list[re.Match[str]]:
    """The stamps of torch in `line`; a line may have several, where another process wrote into it."""
    found = [match for match in _STAMP.finditer(line, 0, _SEARCHED) if not match["where"] or _of_torch(match, line)]
    full = [match for match in found if match["where"] or match["logger"]]
    return full or found[:1]


def _of_torch(match: re.Match[str], line: str) -> bool:
    """Whether a stamp in torch's form is torch's; absl and others have the same form."""
    rest = line[match.end() :]
    return bool(_TORCH.search(match["where"]) or _COMPILE.match(rest) or _TAG.match(rest))


def _stamp(match: re.Match[str], line: str) -> tuple[Stamp, int]:
    """The stamp, and where the text behind it begins."""
    groups, end = match.groupdict(), match.end()
    compiled = _COMPILE.match(line, end) if groups["where"] else None
    end = compiled.end() if compiled else end
    tagged = _TAG.match(line, end) if groups["where"] else None
    end = tagged.end() if tagged else end
    logger = (groups["logger"] or "").rpartition(".")[2]
    tag = tagged["tag"] if tagged else groups["tag_"] or groups["tag__"] or (logger if logger.startswith("__") else "")
    compile_id = compiled["id"] if compiled else groups["id_"] or groups["id__"]
    attempt = compiled["attempt"] if compiled else groups["attempt_"] or groups["attempt__"]
    rank, pid = groups["rank"] or groups["rank_"], int(groups["pid"] or 0)
    shown = f"{compile_id or ''}_{attempt or 0}"
    # different lines of torch log the head of a list of guards and its items
    place = (tag, shown) if tag == "__guards" else (
        groups["where"] or groups["clock"] or tag, groups["time"] or "", shown, groups["pid"] or ""
    )  # fmt: skip
    level = groups["level"] or (groups["level_"] or "").replace("DEBUG", "V")[:1]
    time = (groups["time"] or "").replace(",", ".")
    pid = pid if pid < _BIGGEST_PID else 0
    return Stamp(place, level, time, pid, int(rank) if rank else None, tag, compile_id, int(attempt or 0)), end


@dataclass
class Heads:
    """The heads of a text, as patterns in which numbers may differ."""

    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)  # the most frequent first
    noisy: set[str] = field(default_factory=set)  # the numbers differ in every line, and tell nothing apart

    @classmethod
    def learnt(cls, lines: Iterable[str]) -> Heads:
        """The heads before the stamps in `lines`."""
        counts: Counter[str] = Counter()
        texts: dict[str, set[str]] = {}
        for line in _plain(lines):
            match = next(iter(_stamps(line)), None) or _BARE.search(line, 0, _SEARCHED)
            head = line[: match.start()] if match else ""
            if not head or _BAR.search(head):
                continue
            pattern = _pattern(head)
            if pattern in counts or len(counts) < _MOST_HEADS:
                counts[pattern] += 1
                texts.setdefault(pattern, set()).add(_TIME.sub("", head))
        noisy = {pattern for pattern, number in counts.items() if len(texts[pattern]) > max(1, number // 2)}
        return cls({pattern: re.compile(pattern) for pattern, _ in counts.most_common()}, noisy)

    def cut(self, text: str) -> tuple[str, str]:
        """The stream of the head of `text`, and the text without it."""
        best: re.Match[str] | None = None
        for pattern in self.patterns.values():
            match = pattern.match(text)
            if match and (best is None or match.end() > best.end()):
                best = match
        if best is None:
            return "", text
        pattern_text = best.re.pattern
        stream = "" if pattern_text in self.noisy else " ".join(_TIME.sub("", best[0]).split()).rstrip(" |>#:")
        return stream, text[best.end() :]


def _pattern(head: str) -> str:
    """`head` as a pattern: other numbers, and other blanks between words; the blanks at its end stay."""
    core = head.rstrip()
    parts = re.split(r"(\d+|\s+)", core)
    words = (
        "" if not part else r"\d+" if part.isdigit() else r"\s+" if part.isspace() else re.escape(part)
        for part in parts
    )
    return "".join(words) + re.escape(head[len(core) :])


def without_heads(text: str, mark: re.Pattern[str]) -> str:
    """`text` without what a logger wrote before each line of what begins with `mark`: ``ERROR 05-27 [core.py:3] ``."""
    lines = text.split("\n")
    heads: dict[str, re.Pattern[str]] = {}
    for line, following in pairwise(lines):
        found = mark.search(line)
        head = line[: found.start()] if found else ""
        if head.strip() and len(heads) < _MOST_HEADS:
            pattern = _pattern(head)
            matched = re.match(pattern, following)
            heads |= {pattern: re.compile(pattern)} if matched else {}
    known = Heads(heads)
    return "\n".join(known.cut(line)[1] for line in lines) if heads else text


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """The lines without colours, and out of the JSON that a container's log wraps each in."""
    for line in lines:
        text = line.rstrip("\n")
        if text.startswith("{") and text.rstrip().endswith("}"):
            yield from _unwrapped(text)
            continue
        text = _ANSI.sub("", text) if "[" in text else text
        yield _REPEATED.sub("", text) if text.endswith("]") or "[repeated" in text else text


def _unwrapped(text: str) -> Iterator[str]:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        data = None
    values = [data.get(key) for key in ("log", "message", "msg", "text", "line")] if isinstance(data, dict) else []
    found = next((value for value in values if isinstance(value, str)), None)
    for line in text.split("\n") if found is None else found.rstrip("\n").split("\n"):
        yield _ANSI.sub("", line)


def log_lines(lines: Iterable[str], heads: Heads) -> Iterator[LogLine]:
    """The lines of a text, each with the stamp that torch wrote, if any."""
    for line in _lines(lines, heads):
        pair = _PAIR.match(line.text) if line.text.startswith("(") else None
        for text in _parted(pair) if pair else (line.text,):
            yield line if pair is None else replace(line, text=text)


def _parted(pair: re.Match[str]) -> list[str]:
    """The lines that newer versions write in place of a pair: the function, and its guards in a list."""
    reasons = pair["reasons"].replace("\\'", "'").replace('\\"', '"')
    return [pair["head"], f"    {pair['by']}", *(f"    - {reason}" for reason in listed(reasons) or [reasons])]


def listed(text: str) -> list[str]:
    """The texts in a list as Python prints it; empty for anything else."""
    if not (text.startswith("[") and text.endswith("]")):
        return []
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [str(one) for one in found]


def _lines(lines: Iterable[str], heads: Heads) -> Iterator[LogLine]:
    for line in _plain(lines):
        stamps = _stamps(line)
        if not stamps:
            yield _unstamped(line, heads)
            continue
        for match, following in zip(stamps, [*stamps[1:], None], strict=True):
            stamp, start = _stamp(match, line)
            stream = heads.cut(line[: match.start()])[0] if match is stamps[0] else ""
            yield LogLine(line[start : following.start() if following else None], stream, stamp, stamp.rank)


def _unstamped(line: str, heads: Heads) -> LogLine:
    stream, text = heads.cut(line)
    ranked = _RANKED.match(text)
    if ranked:
        return LogLine(text[ranked.end() :], stream, None, int(ranked["rank"] or ranked["local"]))
    bare = _BARE.search(text, 0, _SEARCHED)
    text = text[bare.start() :] if bare else text
    return LogLine(text, stream)
