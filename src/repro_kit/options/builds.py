"""The options of the commands that run something on builds of torch: verify, bisect, nightly and farm."""

# No `from __future__ import annotations`: `options_of` reads the types.
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from repro_kit.options.commands import InterfaceOptions, InterpreterOptions, OutputOptions, RunLimit
from repro_kit.options.declare import ANEW, INSTALLS, REMOVES, RUNS, SENDS, USER_RUNS, WRITES, again, option
from repro_kit.options.stages import RunOptions

_builds = partial(option, heading="Other builds of torch", rule=INSTALLS)


@dataclass(frozen=True)
class SourceOptions:
    """Where builds come from."""

    nightly: str | None = _builds(
        "--nightly PLATFORM", "Nightlies of torch for cpu, cu126, rocm6.4, xpu …", agents=True
    )
    index_url: str | None = _builds(
        "--index-url URL", "Builds of this index (also file://).", shown="releases on PyPI", agents=True
    )
    wheels: Path | None = _builds("--wheels DIR", "Wheels in this directory.", agents=True)
    cache: Path | None = _builds("--cache DIR", "Directory for downloaded wheels.", rule=WRITES)
    cache_size: float = _builds("--cache-size GIB", "Size limit of the cache.", 20.0, rule=ANEW)


@dataclass(frozen=True)
class BuildOptions(SourceOptions):
    """The builds that something is run on."""

    package: str = _builds("--package NAME", "Package whose builds are run.", "torch", agents=True)
    on: tuple[str, ...] = _builds(
        "--on BUILDS", "Run on these: versions, days or environments, with commas.", (), rule=ANEW, agents=True
    )
    releases: str | None = _builds("--releases RANGE", "All releases of a range: 2.10: or 2.10:2.13.", agents=True)


@dataclass(frozen=True)
class VerifyOptions(RunLimit, InterpreterOptions):
    """How `verify` runs a bundle. None leaves the choice to it."""

    timeout: float | None = again(RunLimit, "timeout", shown="the bundle's own")
    memory: float | None = option("--memory GIB", "Memory limit of the run, in GiB.", shown="80 % of the machine's")
    against_nightly: bool = option(
        "--against-nightly", "Install the newest nightly of torch, and run with it.", rule=INSTALLS
    )
    expect: str | None = option(
        "--expect ANSWER",
        "fails or passes: exit with 0 on this answer, and with 1 on the other.",
        choices=("fails", "passes"),
    )
    usual: float = RunOptions.timeout  # seconds for a bundle that asks for no time


@dataclass(frozen=True)
class TableOptions:
    """How `verify` shows the builds."""

    markdown: bool = option("--markdown", "Print the table of the builds as Markdown.")


@dataclass(frozen=True)
class InstallOptions:
    """The interpreter and the packages that a build gets."""

    python: str | None = _builds(
        "--python PATH",
        "Python to install the builds for.",
        shown="the active environment's",
        rule=USER_RUNS,
        agents=True,
    )
    packages: tuple[str, ...] = _builds("--with REQUIREMENT", "Also install this package.", ())


@dataclass(frozen=True)
class OfflineOptions:
    """Whether wheels may be downloaded."""

    offline: bool = _builds("--offline", "Use cached wheels only. No network.", rule=ANEW)


@dataclass(frozen=True)
class BisectOptions(SourceOptions, RunLimit):
    """What `bisect` searches, and how it judges."""

    good: tuple[str, ...] = option(
        "--good BUILD", "A build that works: version, date, wheel, commit, path.", (), rule=INSTALLS, agents=True
    )
    bad: tuple[str, ...] = option(
        "--bad BUILD", "A build that fails.", (), shown="the newest", rule=INSTALLS, agents=True
    )
    find_fix: bool = option("--find-fix", "Look for the first build that no longer fails.", agents=True)
    on_timeout: str = option(
        "--on-timeout", "Verdict for a build whose run times out.", "skip", choices=("good", "bad", "skip")
    )
    symptom: str | None = option("--check SYMPTOM", "Symptom in place of a failure: accuracy, recompiles>N …")
    any_failure: bool = option("--any-failure", "Count every failure, not only the expected one.")
    repeat: int = option("--repeat N", "Runs that must pass before a build is good.", 1)
    max_skips: int | None = option("--max-skips N", "Stop after N untestable builds.", shown="16")
    spread: int | None = option("--spread N", "Judge N more builds, and find every change between them.", agents=True)
    mark: tuple[str, ...] = option("--mark BUILD=MARK", "Set a build's verdict: good, bad, skip or forget.", ())
    log: bool = option("--log", "Show the verdicts and why each build was chosen. Run nothing.")
    repo: Path | None = option("--repo CLONE", "Clone of PyTorch; its commits are ranked.")
    place: str | None = option(
        "-o --output DIR", "Directory for the state.", shown="the case, or ./NAME.bisect", rule=WRITES, agents=True
    )
    fresh: bool = option("--fresh", "Forget all verdicts, and start again.", rule=REMOVES, agents=True)
    package: tuple[str, ...] = _builds("--package NAME", "Package to vary.", (), shown="torch", agents=True)
    clone: Path | None = _builds("--git CLONE", "Commits of a local clone.", rule=RUNS)
    build: str | None = _builds(
        "--build COMMAND", "Builds a commit, in its work tree, for the interpreter $PYTHON.", rule=RUNS
    )
    paths: tuple[str, ...] = _builds("--path PATH", "Only commits that touch this path.", (), rule=ANEW)
    all_parents: bool = _builds("--all-parents", "Search inside merged branches too.", rule=ANEW)
    pythons: tuple[str, ...] = _builds(
        "--python PATH",
        "Python to install the builds for. Several interpreters are themselves the builds.",
        (),
        rule=RUNS,
        agents=True,
    )
    pre: bool = _builds("--pre", "Include pre-releases.")
    packages: tuple[str, ...] = again(InstallOptions, "packages")
    constraint: tuple[str, ...] = _builds("--constraint FILE", "Constraints file for the installation.", ())
    keep: bool = _builds("--keep", "Keep the environments of the builds.", rule=WRITES)


@dataclass(frozen=True)
class RegressionOptions(RunLimit):
    """Of commands that search for the build that changed a result."""

    no_bisect: bool = option("--no-bisect", "Do not search for the build that changed a result.")


@dataclass(frozen=True)
class NotifyOptions:
    """Who is told."""

    notify: str | None = option(
        "--notify CMD", "Run this command, with the JSON on its stdin, when there is something to tell.", rule=RUNS
    )


@dataclass(frozen=True)
class NightlyOptions(SourceOptions, InstallOptions, RegressionOptions):
    """The build of the night."""

    nightly: str | None = again(SourceOptions, "nightly", shown="cpu")
    index_url: str | None = again(SourceOptions, "index_url", help="Builds of this index instead.", shown="")
    wheels: Path | None = again(SourceOptions, "wheels", help="Wheels in this directory instead.")
    package: str = again(BuildOptions, "package")
    build: str | None = _builds("--build BUILD", "Build to test.", shown="the newest", rule=RUNS)
    state_folder: str | None = option("-o --output DIR", "Directory for results.", shown="FOLDER/.nightly", rule=WRITES)


@dataclass(frozen=True)
class FarmOptions:
    """The farm."""

    farm: Path = option("--farm DIR", "Directory of the farm.", Path("farm"), rule=WRITES, agents=True)


@dataclass(frozen=True)
class FarmRunOptions(RegressionOptions):
    """How the cases of a farm are run."""

    executor: str = option(
        "--executor WHERE", "local, submitit[:OPTION=VALUE,…], dask://HOST:PORT or MODULE:FACTORY.", "local"
    )
    workers: int | None = option("--workers N", "Cases that run at the same time.", shown="1; Slurm, Dask: all")
    retry: bool = option("--retry", "Run again what could not run.")
    twin: str | None = option(
        "--twin BUILD", "Run each case on this stable build, too: it tells whose a regression is.", rule=INSTALLS
    )
    shard: str | None = option("--shard I/N", "Run only this part of the cases; `farm merge` joins the parts.")


@dataclass(frozen=True)
class FarmImportOptions:
    """Of which build results are that come from elsewhere."""

    build: str | None = option("--build BUILD", "The build that the tests ran on: its version.")
    line: str = option("--line NAME", "The series of builds that it belongs to.", "tests")
    twins: tuple[Path, ...] = option(
        "--twin FILE", "Results of the same tests on the stable build, of the same day.", ()
    )
    stable: str | None = option("--stable BUILD", "The version of that build.")


@dataclass(frozen=True)
class FarmStatusOptions:
    """Which cases `farm status` shows."""

    states: tuple[str, ...] = option("--state STATE", "Only cases in this state (may be repeated).", (), agents=True)


@dataclass(frozen=True)
class FarmReportOptions:
    """Where `farm report` writes."""

    output: Path | None = option("-o --output DIR", "Directory.", shown="FARM/report", rule=WRITES)
    issue: str | None = option(
        "--issue LINK", "Put the text of the newest release into this issue: a link, or its number.", rule=SENDS
    )
    repo: str | None = option("--repo OWNER/NAME", "Repository of --issue on GitHub.", shown="pytorch/pytorch")


@dataclass(frozen=True)
class FarmFileOptions:
    """What `farm file` files, and where."""

    repo: str | None = option("--repo OWNER/NAME", "Repository on GitHub.", shown="pytorch/pytorch")
    issue: str | None = option(
        "--issue LINK", "The issue of the case: a link, or its number.", shown="as filed before", rule=SENDS
    )


@dataclass(frozen=True)
class FarmExportOptions:
    """Where `farm export` writes."""

    output: Path | None = option("-o --output FILE", "Write it to this file.", rule=WRITES)


#: The classes that declare the options of each of these commands, in the order of its help.
COMMANDS: dict[str, tuple[type, ...]] = {
    "verify": (VerifyOptions, BuildOptions, TableOptions, InterfaceOptions),
    "bisect": (BisectOptions, OfflineOptions, InterfaceOptions),
    "nightly": (NightlyOptions, NotifyOptions, InterfaceOptions),
    "farm add": (FarmOptions, OutputOptions),
    "farm run": (
        FarmOptions,
        BuildOptions,
        InstallOptions,
        OfflineOptions,
        FarmRunOptions,
        NotifyOptions,
        InterfaceOptions,
    ),
    "farm import": (FarmOptions, FarmImportOptions, NotifyOptions, OutputOptions),
    "farm status": (FarmOptions, FarmStatusOptions, OutputOptions),
    "farm report": (FarmOptions, FarmReportOptions, InterfaceOptions),
    "farm file": (FarmOptions, FarmFileOptions, InterfaceOptions),
    "farm export": (FarmOptions, FarmExportOptions, OutputOptions),
    "farm merge": (FarmOptions, OutputOptions),
    "farm untrack": (FarmOptions, OutputOptions),
}
