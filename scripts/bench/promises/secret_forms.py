"""Tokens of real services, private paths and addresses: gone from every text. What a report needs: still there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from promises import Row
from repro_kit.bundle.privacy.redact import Redactor
from samples.private_addresses import HARMLESS, Planted, leaf_alone, planted
from samples.secret_samples import CONTEXTS, FORMS, left_of, samples

_ROOT = Path(__file__).resolve().parents[3]
_SIZES = {"small": (2200, 720, 60), "full": (10_000, 5_000, 500)}
_SEED = 14


def measure(size: str, scratch: Path) -> list[Row]:
    """The rows of this subject."""
    tokens, addresses, leaves = _SIZES[size]
    return [
        _tokens(tokens),
        _planted("a private path, host, IP or e-mail address is gone", planted(addresses, _SEED), bar=0.999),
        _planted("a data file's name is gone, also without its path", leaf_alone(leaves, _SEED), bar=0.999),
        _harmless(),
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
