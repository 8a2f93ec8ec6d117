"""Try repro-kit with other builds of torch, and write docs/compatibility.md and examples/versions.toml.

    scripts/matrix [VERSION[@PYTHON]]... [--all] [--check] [--index URL] [--directory DIR]

VERSION is a release of torch, or `pre` for the newest pre-release that the index has. PYTHON is a version or a path;
without it, repro-kit's own Python is used. Each version gets an environment of its own, made with uv from the index
(PyPI's builds run on a CPU, and take 3 to 5 GB each; builds for the CPU alone are smaller:
--index https://download.pytorch.org/whl/cpu). `collect`, `verify` and `explain` are run on two examples, and on those
that fail with that version but not with the torch of the tests; the others run by themselves. Environments and cases
that exist are used again: remove DIR to begin anew. Results of other versions stay on the page. Exits with 1 when a
command failed with one of the versions, else with 2 when a version could not be tried.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compatibility.cells import plain_result, try_example, try_tests
from compatibility.environment import PRE, ROOT, Environment, Wanted, environment_for, newest_prerelease
from compatibility.examples import EXPECTED, worth_collecting
from compatibility.features import lacking
from compatibility.page import PAGE, page, read_results, write_results
from repro_kit.builds.build_source import UnusableError
from repro_kit.errors import ReproKitError

VERSIONS = ("2.5.1@3.9", "2.7.1", "2.9.1", "2.11.0", "2.13.0", "2.14.1", "2.15.0", PRE)


def main() -> int:
    """Try each version, and write the page after each."""
    options = _options()
    failed = untried = False
    for text in options.versions or VERSIONS:
        wanted = Wanted.parse(text)
        if wanted.version == PRE:
            newest = newest_prerelease(options.index)
            if newest is None:
                print("The index has no pre-release of torch for this Python.", flush=True)
                continue
            wanted = Wanted(newest, wanted.python)
        try:
            result = _try(wanted, options)
        except (ReproKitError, UnusableError) as error:
            print(f"torch {wanted.version} was not tried: {error}", flush=True)
            untried = True
            continue
        failed = failed or any(cell.startswith("✗") for cell in _cells(result))
        if not options.check:
            write_results({**read_results(), wanted.version: result})
            PAGE.write_text(page(read_results()), encoding="utf-8")
    return 1 if failed else 2 * untried


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION[@PYTHON]", help=f"[default: {' '.join(VERSIONS)}]")
    parser.add_argument("--all", action="store_true", help="all commands on all examples")
    parser.add_argument("--check", action="store_true", help="write no page; results of earlier runs do not count")
    parser.add_argument("--example", action="append", metavar="NAME", help="only this example (may be repeated)")
    parser.add_argument("--no-examples", action="store_true", help="leave the examples out")
    parser.add_argument("--no-tests", action="store_true", help="leave the probe's tests out")
    parser.add_argument("--index", metavar="URL", help="an index to install torch from, besides the default one")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "matrix", help="of the environments")
    return parser.parse_args()


def _try(wanted: Wanted, options: argparse.Namespace) -> dict[str, Any]:
    """What was seen with one version. Results of examples that are left out this time stay."""
    environment = _make(wanted, options)
    before = {} if options.check else read_results().get(wanted.version, {})
    tests = before.get("tests", "—")
    cases = options.directory.absolute() / "cases" / wanted.version
    cases.mkdir(parents=True, exist_ok=True)
    examples = dict(before.get("examples", {}))
    for name, cells in _examples(wanted.version, environment, cases, options):
        known = examples.get(name, {})
        examples[name] = {**known, **cells} if known.get("result") == cells["result"] else cells
        print(f"torch {environment.torch}: {name}: {cells}", flush=True)
    if not options.no_tests:
        own = environment if environment.tests else _make(Wanted(wanted.version), options)
        tests = try_tests(own, cases)
        print(f"torch {environment.torch}: tests: {tests}", flush=True)
    return {
        "torch": environment.torch,
        "python": environment.python,
        "tests": tests,
        "lacks": [feature.name for feature in lacking(environment.interpreter)],
        "examples": examples,
    }


def _make(wanted: Wanted, options: argparse.Namespace) -> Environment:
    print(f"torch {wanted.version}: making the environment", flush=True)
    return environment_for(wanted, options.directory.absolute(), options.index)


def _examples(
    version: str, environment: Environment, cases: Path, options: argparse.Namespace
) -> Iterator[tuple[str, dict[str, str]]]:
    """The cells of each example: of all commands where `collect` is worth its time, else of the plain run alone."""
    wanted = () if options.no_examples else options.example or EXPECTED
    collected = options.example or (EXPECTED if options.all else worth_collecting(version))
    for name in wanted:
        if name in collected:
            yield name, try_example(name, environment, cases)
        else:
            yield name, {"result": plain_result(name, environment)}


def _cells(result: dict[str, Any]) -> list[str]:
    return [result["tests"], *(cell for cells in result["examples"].values() for cell in cells.values())]


if __name__ == "__main__":
    sys.exit(main())
