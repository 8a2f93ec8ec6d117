"""What a query is expected to cost, in seconds: a large candidate may take twenty times as long as a small one."""

from __future__ import annotations

from dataclasses import dataclass, field

_EMPTY = 1.0  # seconds that a program without statements is taken to need, before one was seen
_FLOOR = 1e-3  # seconds
_MOST_PARTS = 4  # a part of fewer statements is less likely to fail alone
_MOST_OF_HANG, _TIMES = 16, 4.0  # where each answer that fails takes so many times as long as one that passes


@dataclass
class Costs:
    """Seconds of a query by the number of statements: a line through the answers of this very search.

    What fails and what passes have a line each: a hang takes its time limit, and passes at once.
    """

    _failing: list[tuple[int, float]] = field(default_factory=list)  # (statements, seconds)
    _others: list[tuple[int, float]] = field(default_factory=list)

    def learn(self, statements: int, seconds: float, *, fails: bool) -> None:
        """Take in an answer."""
        (self._failing if fails else self._others).append((statements, max(seconds, _FLOOR)))

    def seconds(self, statements: int, *, fails: bool = False) -> float:
        """What a query of a program of that many statements will take."""
        seen = self._failing if fails else self._others
        if len({count for count, _ in seen}) < 2:
            seen = [*self._failing, *self._others]
        empty, each = _line(seen)
        return empty + each * statements

    def parts(self, statements: int) -> int:
        """Into how many parts to divide the program, if one part alone fails: those that find one statement soonest."""
        part = max(1, statements // _MOST_PARTS)
        hangs = self.seconds(part, fails=True) > _TIMES * self.seconds(part)
        most = _MOST_OF_HANG if hangs else _MOST_PARTS
        return min(range(2, most + 1), key=lambda parts: self._to_the_end(statements, parts))

    def _to_the_end(self, statements: int, parts: int) -> float:
        total, left = 0.0, float(statements)
        while left > 1:
            left = max(1.0, left / parts)
            size = round(left)
            total += (parts - 1) / 2 * self.seconds(size) + self.seconds(size, fails=True)
        return total


def _line(seen: list[tuple[int, float]]) -> tuple[float, float]:
    """(seconds of a program without statements, seconds for each statement); longer queries vary more."""
    if not seen:
        return _EMPTY, 0.0
    points = [(count, seconds, 1 / seconds) for count, seconds in seen]
    if len({count for count, _ in seen}) == 1:
        count, seconds = seen[0]
        return (seconds, 0.0) if seconds <= _EMPTY or not count else (_EMPTY, (seconds - _EMPTY) / count)
    weight = sum(w for _, _, w in points)
    middle = sum(w * x for x, _, w in points) / weight
    mean = sum(w * y for _, y, w in points) / weight
    spread = sum(w * (x - middle) ** 2 for x, _, w in points)
    each = max(0.0, sum(w * (x - middle) * (y - mean) for x, y, w in points) / spread)
    empty = mean - each * middle
    if empty < 0:  # a line through the origin
        return _FLOOR, sum(w * x * y for x, y, w in points) / sum(w * x * x for x, _, w in points)
    return max(empty, _FLOOR), each
