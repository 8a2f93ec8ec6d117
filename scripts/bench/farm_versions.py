"""A farm of real failures over real builds of torch: are the fixed ones found, and is nothing closed wrongly?

    python scripts/bench/farm_versions.py --directory DIR --on PYTHON,PYTHON,... [--plain SCRIPT]... [SCRIPT]...

PYTHON are interpreters with torch, oldest first. Each SCRIPT becomes a bundle on the first of them (a case that DIR has
is used again); a `--plain` one stands as a `repro.py` as it is. Each also runs by itself on every build: whether it
fails there is the truth that the farm is held to. The truth of a further `--bundle` is not known. One more case fails
in 30 % of its runs on every build. The farm's run is killed (`kill -9`) in the middle, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.units import LocalExecutor
from repro_kit.regressions.lifecycle import CELLS, release_table

ROOT = Path(__file__).parents[2]
EXPECTED = tomllib.loads((ROOT / "examples/expected.toml").read_text(encoding="utf-8"))
COIN = "import random, sys\nsys.exit(random.random() < 0.3)\n"
JOURNAL = "FARM_VERSIONS_JOURNAL"  # the variable with the file that names each unit as it begins and ends
LIMIT = 900  # seconds of one run


class JournalExecutor(LocalExecutor):
    """The local executor, which also writes down which unit began and which ended."""

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Future[Any]:
        """Run the function in a new thread."""
        unit = Path(arguments[0]).name.rpartition("-")[0]  # without the token of the run

        def written_down(*given: str) -> Any:
            _write_down(f"began {unit}")
            result = function(*given)
            _write_down(f"ended {unit}")
            return result

        return super().submit(written_down, *arguments)


def _write_down(line: str) -> None:
    with Path(os.environ[JOURNAL]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@dataclass(frozen=True)
class Truth:
    """What a script did on each build by itself."""

    failed: tuple[bool, ...]

    @property
    def state(self) -> str:
        """The state that the farm must find."""
        if not any(self.failed):
            return "new"
        if not self.failed[-1]:
            return "closed"
        return "open" if all(self.failed[self.failed.index(True) :]) else "reopened"


def repro_kit(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "repro_kit", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def bundle_of(script: Path, python: str, cases: Path) -> Path:
    """The case of a script, collected unless it is there."""
    case = cases / f"{script.stem}.repro"
    if not (case / "bundle" / "repro.py").is_file():
        options = EXPECTED.get(script.name, {}).get("options", ())
        done = repro_kit(
            "collect",
            "--yes",
            "--include-source",
            "-q",
            "--python",
            python,
            "--output",
            str(case),
            *options,
            str(script),
        )
        print(f"{script.stem}: collect ended with {done.returncode}", flush=True)
    return case


def plain_case(script: Path, directory: Path) -> Path:
    """A directory with the script as its `repro.py`."""
    target = directory / script.stem / "repro.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(script.read_bytes())
    return target.parent


def truth_of(script: Path, pythons: Sequence[str], directory: Path) -> Truth:
    """Run a script on each build, unless DIR has what that showed."""
    path = directory / "truth" / f"{script.stem}.json"
    path.parent.mkdir(exist_ok=True)
    seen = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for python in pythons:
        if python not in seen:
            seen[python] = _run_script(script, python)  # the last line is for people
            path.write_text(json.dumps(seen, indent=1), encoding="utf-8")
    return Truth(tuple(seen[python][0] for python in pythons))


def _run_script(script: Path, python: str) -> tuple[bool, str]:
    try:
        done = subprocess.run([python, str(script)], capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return True, "it did not end"
    lines = done.stderr.strip().splitlines()
    return done.returncode != 0, lines[-1][:200] if lines and done.returncode else ""


def run_and_kill(words: Sequence[str], journal: Path, kill_after: int) -> Counter[str]:
    """Run the farm until `kill_after` units have ended, kill it, and run the same command; the processes left over."""
    environment = {**os.environ, JOURNAL: str(journal)}
    command = [sys.executable, "-m", "repro_kit", "farm", "run", *words]
    seen = Counter({"processes that outlived the kill": 0})
    farm = psutil.Popen(command, cwd=Path(__file__).parent, env=environment, stdout=subprocess.DEVNULL)
    while farm.poll() is None and len(ended_units(journal)) < kill_after:
        time.sleep(0.2)
    if farm.poll() is None:
        children = farm.children(recursive=True)
        farm.kill()
        farm.wait()
        _, alive = psutil.wait_procs(children, timeout=10)
        seen["processes that outlived the kill"] = len(alive)
        seen["units ended before the kill"] = len(ended_units(journal))
    subprocess.run(command, cwd=Path(__file__).parent, env=environment, stdout=subprocess.DEVNULL, check=False)
    return seen


def ended_units(journal: Path) -> list[str]:
    """The names of the units that ended."""
    with suppress(FileNotFoundError):
        lines = journal.read_text(encoding="utf-8").splitlines()
        return [line.removeprefix("ended ") for line in lines if line.startswith("ended ")]
    return []


def main() -> None:
    options = _options()
    directory = options.directory.absolute()
    (directory / "cases").mkdir(parents=True, exist_ok=True)
    pythons = [str(Path(python).absolute()) for python in options.on.split(",")]
    coin = directory / "coin"
    coin.mkdir(exist_ok=True)
    (coin / "repro.py").write_text(COIN, encoding="utf-8")
    bundles = [bundle_of(script, pythons[0], directory / "cases") for script in options.scripts]
    bundles += [plain_case(script, directory / "plain") for script in options.plain]
    farm = FarmPlace(directory / "farm")
    targets = [*bundles, *options.bundle, coin]
    added = json.loads(repro_kit("farm", "add", "--json", *map(str, targets), "--farm", str(farm.directory)).stdout)
    for each in added["added"]:
        print(f"{Path(each['target']).name}: {each['outcome']} {each['why'] if not each['name'] else ''}".rstrip())
    words = ["--yes", "-q", "--farm", str(farm.directory), "--on", ",".join(pythons), "--workers", str(options.workers)]
    words += ["--executor", f"{Path(__file__).stem}:JournalExecutor", "--timeout", str(LIMIT)]
    journal = directory / "journal.txt"
    started = time.perf_counter()
    seen = run_and_kill(words, journal, options.kill_after or len(targets))
    seconds = time.perf_counter() - started
    truths = {script.stem: truth_of(script, pythons, directory) for script in [*options.scripts, *options.plain]}
    report(farm, truths, seconds)
    repeated = [name for name, times in Counter(ended_units(journal)).items() if times > 1]
    print("; ".join(f"{what}: {count}" for what, count in seen.items()))
    print(f"units that ended: {len(ended_units(journal))}; ended twice: {len(repeated)} {' '.join(repeated)}")


def report(farm: FarmPlace, truths: Mapping[str, Truth], seconds: float) -> None:
    """Print the table: what each case does on each build, what the farm says, and whether the scripts agree."""
    wrong = []
    with farm.reading() as store:
        ((line, builds),) = store.builds().items()
        versions = [build.partition("@")[0] for build in builds]
        print(f"\n| case | {' | '.join(versions)} | state | what the table says | the script itself |")
        print("|---" * (len(builds) + 4) + "|")
        for case in store.cases():
            verdicts = store.verdicts(case.id).get(line, {})
            tried = [verdicts[build] for build in builds if build in verdicts]
            names = dict(zip(builds, versions, strict=True))
            sentence = release_table(tried, case.facts.repeats, names).sentence
            cells = [CELLS[verdicts[build].outcome] if build in verdicts else "" for build in builds]
            truth = truths.get(case.name)
            marks = " ".join("✗" if failed else "✓" for failed in truth.failed) if truth else "not known"
            found = [verdicts[build].fails if build in verdicts else None for build in builds]
            if truth and (case.state not in (truth.state, "duplicate") or found != list(truth.failed)):
                wrong.append(case.name)
            print(f"| `{case.name}` | {' | '.join(cells)} | {case.state} | {sentence} | {marks} |")
        units = sum(1 for case in store.cases() for _ in store.units(case.id))
    print(f"\n{units} units, {seconds:.0f} s; other than the script: {', '.join(wrong) or 'none'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--on", required=True, metavar="PYTHON,…")
    parser.add_argument("--plain", type=Path, action="append", default=[], metavar="SCRIPT")
    parser.add_argument("--bundle", type=Path, action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-after", type=int, metavar="UNITS", help="[default: as many as there are cases]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
