"""Tokens of real services, private paths and addresses: gone from every text. What a report needs: still there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from promises import Row
from repro_kit.bundle.privacy.redact import Redactor
from samples.private_addresses import HARMLESS, Planted, leaf_alone, planted
from samples.secret_samples import CONTEXTS, FORMS, left_of, samples
from samples.spoken_secrets import harmless, spoken

_ROOT = Path(__file__).resolve().parents[3]
_SIZES = {"small": (2200, 720, 60), "full": (10_000, 5_000, 500)}
_SPOKEN = {"small": (400, 400), "full": (2_000, 2_000)}  # texts that tell a secret, and lines that do not
_SEED = 14


def measure(size: str, scratch: Path) -> list[Row]:
    """The rows of this subject."""
    tokens, addresses, leaves = _SIZES[size]
    return [
        _tokens(tokens),
        _planted("a private path, host, IP or e-mail address is gone", planted(addresses, _SEED), bar=0.999),
        _planted("a data file's name is gone, also without its path", leaf_alone(leaves, _SEED), bar=0.999),
        *_spoken(_SPOKEN[size][0]),
        _harmless(),
        _harmless_lines(_SPOKEN[size][1]),
        _fixtures(),
    ]


def _redacted(text: str, name: str) -> tuple[str, Counter[str]]:
    redactor = Redactor()
    redactor.learn(text, name)
    redacted = redactor.redact(text, name)
    return redacted.text, redacted.tokens


def _tokens(count: int) -> Row:
    broken = []
    for case in samples(count, _SEED):
        left = left_of(case, _redacted(case.text, case.name)[0])
        if left:
            broken.append(f"{case.form} in {case.context}: {len(left)} of {len(case.secret)} characters left")
    promise = f"no piece of a token is left ({len(FORMS)} forms, {len(CONTEXTS)} contexts)"
    return Row(promise, count, count - len(broken), 0.999, tuple(broken))


def _spoken(count: int) -> Iterator[Row]:
    """A row for the templates that the patterns were written for, and one for the others."""
    cases = list(spoken(count, _SEED))
    for held_out, words in ((False, ""), (True, ", of a form that no pattern was written for")):
        own = [case for case in cases if case.held_out is held_out]
        broken = tuple(case.text for case in own if case.secret in _redacted(case.text, "text.txt")[0])
        promise = f"a secret in a sentence or a command line is gone{words}"
        yield Row(promise, len(own), len(own) - len(broken), 0.9 if held_out else 0.95, broken)


def _harmless_lines(count: int) -> Row:
    lines = harmless(count, _SEED)
    broken = tuple(line for line in lines if _redacted(line, "text.txt")[0] != line)
    promise = "no false alarm: lines of torch's code and of tracebacks, and sentences about secrets that tell none"
    return Row(promise, len(lines), len(lines) - len(broken), 0.99, broken)


def _planted(promise: str, texts: Iterable[Planted], bar: float) -> Row:
    tried, broken = 0, []
    for case in texts:
        tried += 1
        redacted = _redacted(case.text, case.name)[0]
        if any(private in redacted for private in case.private):
            broken.append(f"{case.form}: {case.text!r}")
    return Row(promise, tried, tried - len(broken), bar, tuple(broken))


def _harmless() -> Row:
    """Names of kernels, versions, shapes, hashes and links, in a message, in JSON and alone."""
    texts = [spelt for text in HARMLESS for spelt in (text, f"RuntimeError: {text}", f'{{"text": "{text}"}}')]
    broken = tuple(text for text in texts if _redacted(text, "text.txt")[0] != text)
    return Row(
        "no false alarm: names of kernels, versions, shapes, hashes, links",
        len(texts),
        len(texts) - len(broken),
        1.0,
        broken,
    )


def _fixtures() -> Row:
    """Real traces, logs and scripts hold no secret: of their lines none may lose more than its directories."""
    tried, broken = 0, []
    for path, text in _real_texts():
        tried += len(text.splitlines())
        tokens = _redacted(text, path.name)[1]
        broken += [f"{path.name}: {token}" for token in tokens if not token.startswith("<dir-")]
    return Row("no false alarm: lines of real traces, logs and scripts", tried, tried - len(broken), 1.0, tuple(broken))


def _real_texts() -> Iterator[tuple[Path, str]]:
    for folder, pattern in (("tests/trace/fixtures", "*.*"), ("examples", "*.py")):
        for path in sorted((_ROOT / folder).rglob(pattern)):
            yield path, path.read_text(encoding="utf-8")
