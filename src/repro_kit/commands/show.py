"""Read the story of a case or a bundle."""

from __future__ import annotations

from pathlib import Path

from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.bundle.story.story import STORY, Story, is_story_file, read_story
from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.files import read_plain
from repro_kit.session.case_paths import is_case
from repro_kit.stages.bundle.describe_bundle import BundleRemarks, story_of
from repro_kit.stages.bundle.forms import candidates, fill, results_of


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
