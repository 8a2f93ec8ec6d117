"""Compare two stories: failures, machines, settings, matrices and programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from repro_kit.bundle.story.story import Story
from repro_kit.diagnosis.cell import word
from repro_kit.failure.signature import Strength
from repro_kit.serialize import to_data

_ABSENT = "–"
_MOST_LINES = 5000  # lines of a compared text; the time grows with the square


@dataclass(frozen=True)
class StoryContrast:
    """The differences in one respect: rows of (name, left, right), all as text."""

    what: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Comparison:
    """The result. `same`: both are the same failure. `contrasts` has every respect, even without differences."""

    same: bool
    sentence: str
    contrasts: tuple[StoryContrast, ...]
    diff: str  # of the programs, as a unified diff; of the scripts where one has no program


def compare(left: Story, right: Story) -> Comparison:
    """Compare two stories."""
    across = left.environment.torch != right.environment.torch
    strength = Strength.CROSS_VERSION if across else Strength.REBASED
    same = left.signature.matches(right.signature, strength)
    words = "the same failure" if same else "different failures"
    contrasts = tuple(_contrast(name, a, b) for name, a, b in zip(_NAMES, _views(left), _views(right), strict=True))
    whole = left.program and right.program
    texts = [(story.program if whole else story.repro).splitlines() for story in (left, right)]
    short = max(map(len, texts)) <= _MOST_LINES
    diff = (
        "\n".join(unified_diff(texts[0], texts[1], "A", "B", lineterm=""))
        if short
        else "The programs are too long to compare."
    )
    return Comparison(same, f"These are {words}{', on different versions of torch' * across}.", contrasts, diff)


_NAMES = ("failure", "versions", "settings", "ablation", "reproducer")


def _views(story: Story) -> Iterator[dict[str, Any]]:
    """One flat mapping for each of `_NAMES`."""
    env = story.environment
    yield {"title": story.title, "error": story.error, **to_data(story.signature), "layer": story.layer}
    yield {
        "torch": env.torch, "torch commit": env.torch_git, "Python": env.python, "platform": env.platform,
        "accelerator": env.accelerator, "threads": env.threads,
        **{f"package {name}": version for name, version in env.packages.items()},
    }  # fmt: skip
    recipe = to_data(story.recipe)
    nested = {name: recipe.pop(name, {}) for name in ("config", "options", "env")}
    yield {
        **recipe,
        **{f"{of} {name}": value for of, values in nested.items() for name, value in values.items()},
        **{f"user's {name}": value for name, value in env.config.items()},
        **{f"${name}": value for name, value in env.variables.items()},
    }
    yield {cell.name: word(cell) for cell in story.ablation.cells} if story.ablation else {}
    yield {
        "level": story.level,
        "verified": story.verified,
        "reduced": story.minimized,
        "kind of reproducer": f"{kind.number}: {kind.why}" if (kind := story.reproducer_kind) else None,
        "passing twin": story.twin.what if story.twin else None,
        "command": story.command,
    }


def _contrast(name: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> StoryContrast:
    names = [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
    return StoryContrast(name, tuple((name, _text(left.get(name)), _text(right.get(name))) for name in names))


def _text(value: Any) -> str:
    if value is None or value in ("", [], ()):
        return _ABSENT
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
