"""A small script that fails, for those who want to try repro-kit: the one of the tutorial, if it fails here."""

from __future__ import annotations

from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from repro_kit.errors import StageError, UsageError
from repro_kit.plain_file import read_plain

#: The scripts, and the releases of torch that each fails with (examples/expected.toml).
SCRIPTS = {"dynamic_shape_error.py": "<2.14", "inductor_accuracy.py": ">=2.0"}
_LARGEST = 1 << 16  # bytes
_PACKAGE = Path(__file__).resolve().parent.parent


def fitting(torch: str) -> str:
    """The name of the first script that fails with this version of torch."""
    try:
        version = Version(torch)
    except InvalidVersion:  # a build of the user's own
        return next(reversed(SCRIPTS))
    return next(
        name for name, fails_on in SCRIPTS.items() if SpecifierSet(fails_on).contains(version, prereleases=True)
    )


def write_demo(name: str, directory: Path) -> Path:
    """Write the script `name` to `directory`; one that is there stays. Raises ReproKitError for another file there."""
    path, text = directory / name, _source(name).read_bytes()
    try:
        with path.open("xb") as file:
            file.write(text)
    except FileExistsError:
        if read_plain(path, _LARGEST) != text:
            raise UsageError(f"{name} is another file here; remove it, or go to another directory.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; go to another directory.") from error
    return path


def _source(name: str) -> Path:
    """The file of a script: inside the package in a wheel, among the examples in a source checkout."""
    for directory in (_PACKAGE / "examples", _PACKAGE.parent.parent / "examples"):
        if (directory / name).is_file():
            return directory / name
    raise StageError("This installation of repro-kit lacks its examples; install it again.")
