"""The options that a case was made with, in `options.json`. The file is flat, so that all versions can read it."""

from __future__ import annotations

from dataclasses import fields

from repro_kit.case.case import Case
from repro_kit.model.serialize import plain
from repro_kit.session.options import (
    AblateOptions,
    BundleOptions,
    CaptureOptions,
    MinifyOptions,
    ObserveOptions,
    Options,
)

_FILE = "options.json"


def write_options(case: Case, options: Options) -> None:
    """Write `options` to the case."""
    case.write(_FILE, {name: value for part in fields(options) for name, value in plain(options.of(part.name)).items()})


def read_options(case: Case) -> Options | None:
    """The options in the case; None if it has none. Raises ReproKitError when the file is damaged."""
    if not case.has(_FILE):
        return None
    return Options(
        case.read(_FILE, ObserveOptions),
        case.read(_FILE, CaptureOptions),
        case.read(_FILE, AblateOptions),
        case.read(_FILE, MinifyOptions),
        case.read(_FILE, BundleOptions),
    )
