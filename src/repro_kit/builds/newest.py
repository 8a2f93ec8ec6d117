"""Install the newest nightly of torch into a temporary environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from repro_kit.builds.build_source import UnusableError
from repro_kit.builds.catalog import BuildSelection, PackageEnds, open_source
from repro_kit.builds.installed import installed
from repro_kit.builds.interpreters import default_python
from repro_kit.builds.target import target_of
from repro_kit.builds.wheels.nightly_index import platform_of
from repro_kit.errors import CannotRunError
from repro_kit.runner.places import cache_home
from repro_kit.runner.scratch import scratch
from repro_kit.ui import Ui


@contextmanager
def newest_nightly(python: str | None, ui: Ui) -> Iterator[str]:
    """The interpreter of a temporary environment, with the Python version and the platform (CPU, CUDA) of `python`.

    Raises ReproKitError when the nightlies cannot be listed, or when the newest one cannot be installed.
    """
    base = python or default_python(os.environ)
    target = target_of(base)
    torch = installed(base, "torch", os.environ)
    where = BuildSelection(nightly=platform_of(torch.version if torch else None), cache=cache_home().absolute())
    with scratch() as directory, ui.stage("nightly"):
        source = open_source(PackageEnds(), where, target, directory)
        build = source.builds()[-1]
        ui.progress(f"installing {build.shown}")
        try:
            with source.ready(build) as ready:
                ui.done(f"torch {build.shown}")
                yield ready.python
        except UnusableError as error:
            raise CannotRunError(f"torch {build.shown} does not install: {error}.") from error
        finally:
            source.close()
