"""`show` and `diff`: the story of a case or a bundle, and in what two stories differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.bundle.story.story import STORY, Story, is_story_file, read_story
from repro_kit.case.case import Case
from repro_kit.diagnosis.cell import word
from repro_kit.errors import UsageError
from repro_kit.failure.signature import Strength
from repro_kit.files import read_plain
from repro_kit.serialize import to_data
from repro_kit.session.case_paths import is_case
from repro_kit.stages.bundle.describe_bundle import BundleRemarks, story_of
from repro_kit.stages.bundle.form_files import fill
from repro_kit.stages.bundle.forms import candidates, results_of


def story_at(target: Path) -> Story:
    """The story at `target`. Raises ReproKitError if `target` is neither a case nor a bundle, or is damaged."""
    if is_case(target):
        return _of_case(Case.open(target))
    if target.is_dir():
        return read_story(_files(target), str(target))
    if not target.exists():
        raise UsageError(f"{target} does not exist; give a case or a bundle.")
    return read_story(archive.read(target, is_story_file), str(target))


def _of_case(case: Case) -> Story:
    """The bundle's story if the bundle is up to date; else the story so far, of the smallest program known."""
    record = case.stage("bundle")
    if record is not None and record.status == "done" and case.has(f"bundle/{STORY}"):
        return read_story(_files(case.path / "bundle"), str(case.path))
    results = results_of(case)
    candidate = next(candidates(case, results))
    contents = Contents(Redactor())
    left_out = fill(candidate, case, results, contents, include_values=False)
    return story_of(case, results, candidate, contents, remarks=BundleRemarks(tuple(left_out)), code=True)


def _files(directory: Path) -> dict[str, bytes]:
    """The files of a bundle in `directory` that make its story."""
    try:
        paths = [*directory.iterdir(), *(directory / PLACE).rglob("*.py")]
        named = {path.relative_to(directory).as_posix(): path for path in paths if path.is_file()}
        files: dict[str, bytes] = {}
        for name in filter(is_story_file, named):
            files[name] = read_plain(named[name], archive.LARGEST_SHOWN)
            if sum(map(len, files.values())) > archive.MOST_SHOWN:
                raise UsageError(f"{directory} holds more than {archive.MOST_SHOWN >> 20} MiB of text to show.")
        return files
    except OSError as error:
        raise UsageError(f"Cannot read {directory}: {error.strerror}.") from error


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
