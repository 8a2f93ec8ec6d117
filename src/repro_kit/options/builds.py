"""The options of the commands that run something on builds of torch: verify, bisect, nightly and farm."""

# No `from __future__ import annotations`: `options_of` reads the types.
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from repro_kit.options.common import InterfaceOptions, InterpreterOptions, OutputOptions, RunLimit
from repro_kit.options.declare import ANEW, INSTALLS, REMOVES, RUNS, SENDS, USER_RUNS, WRITES, again, option
from repro_kit.session.options import RunOptions

_builds = partial(option, heading="Other builds of torch", rule=INSTALLS)


@dataclass(frozen=True)
class SourceOptions:
    """Where builds come from."""

    nightly: str | None = _builds(
        "--nightly", None, "Nightlies of torch for cpu, cu126, rocm6.4, xpu …", metavar="PLATFORM", agents=True
    )
    index_url: str | None = _builds(
        "--index-url",
        None,
        "Builds of this index (also file://).",
        metavar="URL",
        shown="releases on PyPI",
        agents=True,
    )
    wheels: Path | None = _builds("--wheels", None, "Wheels in this directory.", metavar="DIR", agents=True)
    cache: Path | None = _builds("--cache", None, "Directory for downloaded wheels.", metavar="DIR", rule=WRITES)
    cache_size: float = _builds("--cache-size", 20.0, "Size limit of the cache.", metavar="GIB", rule=ANEW)


@dataclass(frozen=True)
class BuildOptions(SourceOptions):
    """The builds that something is run on."""

    package: str = _builds("--package", "torch", "Package whose builds are run.", metavar="NAME", agents=True)
    on: tuple[str, ...] = _builds(
        "--on",
        (),
        "Run on these: versions, days or environments, with commas.",
        metavar="BUILDS",
        rule=ANEW,
        agents=True,
    )
    releases: str | None = _builds(
        "--releases", None, "All releases of a range: 2.10: or 2.10:2.13.", metavar="RANGE", agents=True
    )


@dataclass(frozen=True)
class VerifyOptions(RunLimit, InterpreterOptions):
    """How `verify` runs a bundle. None leaves the choice to it."""

    timeout: float | None = again(RunLimit, "timeout", shown="the bundle's own")
    memory: float | None = option(
        "--memory", None, "Memory limit of the run, in GiB.", metavar="GIB", shown="80 % of the machine's"
    )
    against_nightly: bool = option(
        "--against-nightly", False, "Install the newest nightly of torch, and run with it.", rule=INSTALLS
    )
    usual: float = RunOptions.timeout  # seconds for what asks for no time of its own


@dataclass(frozen=True)
class TableOptions:
    """How `verify` shows the builds."""

    markdown: bool = option("--markdown", False, "Print the table of the builds as Markdown.")


@dataclass(frozen=True)
class InstallOptions:
    """The interpreter and the packages that a build gets."""

    python: str | None = _builds(
        "--python",
        None,
        "Python to install the builds for.",
        metavar="PATH",
        shown="the active environment's",
        rule=USER_RUNS,
        agents=True,
    )
    packages: tuple[str, ...] = _builds("--with", (), "Also install this package.", metavar="REQUIREMENT")


@dataclass(frozen=True)
class OfflineOptions:
    """Whether wheels may be downloaded."""

    offline: bool = _builds("--offline", False, "Use cached wheels only. No network.", rule=ANEW)


@dataclass(frozen=True)
class BisectOptions(SourceOptions, RunLimit):
    """What `bisect` searches, and how it judges."""

    good: tuple[str, ...] = option(
        "--good",
        (),
        "A build that works: version, date, wheel, commit, path.",
        metavar="BUILD",
        rule=INSTALLS,
        agents=True,
    )
    bad: tuple[str, ...] = option(
        "--bad", (), "A build that fails.", metavar="BUILD", shown="the newest", rule=INSTALLS, agents=True
    )
    find_fix: bool = option("--find-fix", False, "Look for the first build that no longer fails.", agents=True)
    on_timeout: str = option(
        "--on-timeout", "skip", "Verdict for a build whose run times out.", choices=("good", "bad", "skip")
    )
    symptom: str | None = option(
        "--check", None, "Symptom in place of a failure: accuracy, recompiles>N …", metavar="SYMPTOM"
    )
    any_failure: bool = option("--any-failure", False, "Count every failure, not only the expected one.")
    repeat: int = option("--repeat", 1, "Runs that must pass before a build is good.", metavar="N")
    max_skips: int | None = option(
        "--max-skips", None, "Stop after N untestable builds in a row.", metavar="N", shown="16"
    )
    spread: int | None = option(
        "--spread", None, "Judge N more builds, and find every change between them.", metavar="N", agents=True
    )
    mark: tuple[str, ...] = option(
        "--mark", (), "Set a build's verdict: good, bad, skip or forget.", metavar="BUILD=MARK"
    )
    log: bool = option("--log", False, "Show the verdicts and why each build was chosen. Run nothing.")
    repo: Path | None = option("--repo", None, "Clone of PyTorch; its commits are ranked.", metavar="CLONE")
    place: str | None = option(
        "-o --output",
        None,
        "Directory for the state.",
        metavar="DIR",
        shown="the case, or ./NAME.bisect",
        rule=WRITES,
        agents=True,
    )
    fresh: bool = option("--fresh", False, "Forget all verdicts, and start again.", rule=REMOVES, agents=True)
    package: tuple[str, ...] = _builds("--package", (), "Package to vary.", metavar="NAME", shown="torch", agents=True)
    clone: Path | None = _builds("--git", None, "Commits of a local clone.", metavar="CLONE", rule=RUNS)
    build: str | None = _builds(
        "--build", None, "Builds a commit, in its work tree, for the interpreter $PYTHON.", metavar="COMMAND", rule=RUNS
    )
    paths: tuple[str, ...] = _builds("--path", (), "Only commits that touch this path.", metavar="PATH", rule=ANEW)
    all_parents: bool = _builds("--all-parents", False, "Search inside merged branches too.", rule=ANEW)
    pythons: tuple[str, ...] = _builds(
        "--python",
        (),
        "Python to install the builds for. Several interpreters are themselves the builds.",
        metavar="PATH",
        rule=RUNS,
        agents=True,
    )
    pre: bool = _builds("--pre", False, "Include pre-releases.")
    packages: tuple[str, ...] = again(InstallOptions, "packages")
    constraint: tuple[str, ...] = _builds("--constraint", (), "Constraints file for the installation.", metavar="FILE")
    keep: bool = _builds("--keep", False, "Keep the environments of the builds.", rule=WRITES)


@dataclass(frozen=True)
class RegressionOptions(RunLimit):
    """Of commands that search for the build that changed a result."""

    no_bisect: bool = option("--no-bisect", False, "Do not search for the build that changed a result.")


@dataclass(frozen=True)
class NightlyOptions(SourceOptions, InstallOptions, RegressionOptions):
    """The build of the night."""

    nightly: str | None = again(SourceOptions, "nightly", shown="cpu")
    index_url: str | None = again(SourceOptions, "index_url", help="Builds of this index instead.", shown="")
    wheels: Path | None = again(SourceOptions, "wheels", help="Wheels in this directory instead.")
    package: str = again(BuildOptions, "package")
    build: str | None = _builds("--build", None, "Build to test.", metavar="BUILD", shown="the newest", rule=RUNS)
    state_folder: str | None = option(
        "-o --output", None, "Directory for results.", metavar="DIR", shown="FOLDER/.nightly", rule=WRITES
    )


@dataclass(frozen=True)
class FarmOptions:
    """The farm."""

    farm: Path = option("--farm", Path("farm"), "Directory of the farm.", metavar="DIR", rule=WRITES, agents=True)


@dataclass(frozen=True)
class FarmRunOptions(RegressionOptions):
    """How the cases of a farm are run."""

    executor: str = option(
        "--executor", "local", "local, submitit[:OPTION=VALUE,…], dask://HOST:PORT or MODULE:FACTORY.", metavar="WHERE"
    )
    workers: int | None = option(
        "--workers", None, "Cases that run at the same time.", metavar="N", shown="1; Slurm, Dask: all"
    )
    retry: bool = option("--retry", False, "Run again what could not run.")
    shard: str | None = option(
        "--shard", None, "Run only this part of the cases; `farm merge` joins the parts.", metavar="I/N"
    )


@dataclass(frozen=True)
class FarmStatusOptions:
    """Which cases `farm status` shows."""

    states: tuple[str, ...] = option(
        "--state", (), "Only cases in this state (may be repeated).", metavar="STATE", agents=True
    )


@dataclass(frozen=True)
class FarmReportOptions:
    """Where `farm report` writes."""

    output: Path | None = option("-o --output", None, "Directory.", metavar="DIR", shown="FARM/report", rule=WRITES)


@dataclass(frozen=True)
class FarmFileOptions:
    """What `farm file` files, and where."""

    repo: str | None = option("--repo", None, "Repository on GitHub.", metavar="OWNER/NAME", shown="pytorch/pytorch")
    issue: str | None = option(
        "--issue",
        None,
        "The issue of the case: a link, or its number.",
        metavar="LINK",
        shown="as filed before",
        rule=SENDS,
    )


@dataclass(frozen=True)
class FarmExportOptions:
    """Where `farm export` writes."""

    output: Path | None = option("-o --output", None, "Write it to this file.", metavar="FILE", rule=WRITES)


#: The classes that declare the options of each of these commands, in the order of its help.
COMMANDS: dict[str, tuple[type, ...]] = {
    "verify": (VerifyOptions, BuildOptions, TableOptions, InterfaceOptions),
    "bisect": (BisectOptions, OfflineOptions, InterfaceOptions),
    "nightly": (NightlyOptions, InterfaceOptions),
    "farm add": (FarmOptions, OutputOptions),
    "farm run": (FarmOptions, BuildOptions, InstallOptions, OfflineOptions, FarmRunOptions, InterfaceOptions),
    "farm status": (FarmOptions, FarmStatusOptions, OutputOptions),
    "farm report": (FarmOptions, FarmReportOptions, OutputOptions),
    "farm file": (FarmOptions, FarmFileOptions, InterfaceOptions),
    "farm export": (FarmOptions, FarmExportOptions, OutputOptions),
    "farm merge": (FarmOptions, OutputOptions),
    "farm untrack": (FarmOptions, OutputOptions),
}
