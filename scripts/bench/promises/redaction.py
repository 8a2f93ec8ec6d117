"""What never leaves the machine: planted names and values, words that must stay, files that must stay well-formed."""

from __future__ import annotations

import getpass
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from promises import Row

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "helpers"))
import private_values as planted
from repro_kit.bundle.privacy import vocabulary
from repro_kit.options.stages import BundleOptions
from samples import planted_things as things

_TRIALS = {"small": 4, "full": 100}
_ODD = (
    "\\",
    '"',
    "'",
    "\n",
    "\t",
    "é",
    "\u202e",
    "{",
    "}",
    "<",
    "&",
    "%",
    "#",
    "/",
    " ",
    "n",
    "Zk4Qw8",
    "error",
    "REDACTED",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PROGRAM = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x, w):
    avg_pool2d = torch.nn.functional.avg_pool2d(x, 2)
    mul = avg_pool2d * w
    return (mul,)


def calls():
    x = torch.randn(1, 1, 4, 4)
    w = torch.randn(2)
    return [(x, w)]
"""
_MESSAGE = "aten.avg_pool2d of torch.float32 failed in inductor"


def measure(size: str, scratch: Path) -> list[Row]:
    """Plant, pack, and look for what was planted."""
    chance = random.Random(14)
    return [
        _planted(scratch / "planted"),
        *_things(scratch / "things"),
        _strangers(scratch / "strangers", chance, _TRIALS[size]),
        _words(scratch / "words", chance, _TRIALS[size]),
        _odd(scratch / "odd", chance, _TRIALS[size]),
    ]


def _planted(directory: Path) -> Row:
    """Names and values of every place, at both levels, with and without the trace."""
    tried, broken = 0, []
    for program in (False, True):
        for trace in ("yes", "redacted", "no"):
            case = planted.small_case(directory / f"{program}-{trace}", planted.TOLD)
            planted.plant(case)
            planted.with_trace(case, [({"str": [f"/srv/{planted.TOLD}/x.py", 3]}, f"# {planted.TOLD}\nclass G: pass")])
            if program:
                planted.with_program(case, _PROGRAM)
            files = planted.bundle_of(case, planted.VARIABLES, BundleOptions(trace=trace, include_source=True))
            broken += planted.left_in(files, planted.PRIVATE)
            tried += len(planted.PRIVATE)
    lost = len({line.partition(" in ")[0] for line in broken})
    return Row("a planted private name or value is in no file of the bundle", tried, tried - lost, broken=tuple(broken))


def _things(directory: Path) -> Iterator[Row]:
    """Things in the user's files, messages and paths, at each level, and with the user's yes to source files."""
    everywhere = (*planted.PRIVATE, *things.TOLD)
    for words, private, consent, program in (
        ("a script-level bundle", (*everywhere, *things.SECRETS, *things.SOURCE, *things.OPERATOR), False, False),
        ("one with source files", (*everywhere, *things.SECRETS), True, False),
        ("a program-level bundle", (*everywhere, *things.SECRETS, *things.SOURCE, *things.OPERATOR), False, True),
    ):
        case = planted.small_case(directory / words.replace(" ", "-"), f"{planted.TOLD}\n{things.MESSAGE}")
        place = Path(case.file.subject.cwd)
        (place / "train.py").write_text(things.SCRIPT, encoding="utf-8")
        (place / f"{things.SOURCE[-1]}.py").write_text(things.MODULE, encoding="utf-8")
        planted.plant(case)
        planted.with_trace(case, [({"artifact": {"name": line}}, f"# {line}") for line in things.MESSAGE.splitlines()])
        if program:
            planted.with_program(case, things.PROGRAM)
        files = planted.bundle_of(case, planted.VARIABLES, BundleOptions(trace="yes", include_source=consent))
        assert any(name.startswith("files/") for name in files) is consent
        broken = tuple(planted.left_in(files, private))
        lost = len({line.rpartition(" in ")[0] for line in broken})
        promise = f"a planted thing of files, messages and paths is not in {words}"
        yield Row(promise, len(private), len(private) - lost, broken=broken)


def _strangers(directory: Path, chance: random.Random, trials: int) -> Row:
    """Words of no language as values of variables and arguments, in messages, the trace and the program's comments."""
    broken: list[str] = []
    for at in range(trials):
        values = tuple("".join(chance.choices(_LETTERS, k=chance.randint(7, 12))) for _ in range(4))
        case = planted.small_case(directory / str(at), f"no {values[0]}, {values[1]!r}: {values[2]}")
        case.update(subject=planted.with_words(case.file.subject, (values[1], "--site", values[2], f"--n={values[3]}")))
        planted.with_trace(case, [({"artifact": {"name": values[3]}}, f"# {' '.join(values)}")])
        files = planted.bundle_of(case, {"CLIENT_NAME": values[0]}, BundleOptions(trace="yes"))
        broken += [f"{at}: {line}" for line in planted.left_in(files, values)]
        shutil.rmtree(directory / str(at))
    held = trials - len({line.partition(":")[0] for line in broken})
    return Row("an invented word given as a variable or an argument is in no file", trials, held, broken=tuple(broken))


def _words(directory: Path, chance: random.Random, trials: int) -> Row:
    """Words of torch as values of variables and the user's name: titles, links and code are as they were."""
    known = Path(vocabulary.__file__).with_name("words") / "torch.txt"
    words = sorted(word for word in known.read_text(encoding="utf-8").split() if len(word) >= 4)
    case = planted.small_case(directory / "plain", _MESSAGE)
    planted.with_program(case, _PROGRAM)
    before = planted.bundle_of(case, {}, BundleOptions())
    broken = []
    for _ in range(trials):
        chosen = [*chance.sample(words, 3), "avg_pool2d", "inductor", "dynamo-error", "float32", "pytorch"]
        names = ["LOSS_NAME", "BACKEND", "DB_PASSWORD", "MODEL", "API_TOKEN", "NOTIFY_ON", "KIND", "GITHUB_ORG"]
        chance.shuffle(chosen)
        with patch.object(getpass, "getuser", lambda user=chosen[0]: user):
            after = planted.bundle_of(case, dict(zip(names, chosen, strict=True)), BundleOptions())
        harmed = [name for name in planted.SHOWN if after[name] != before[name]]
        broken += [f"{chosen}: {', '.join(harmed)}"] if harmed else []
    return Row(
        "a value that is a word of torch harms no title, link or operator",
        trials,
        trials - len(broken),
        broken=tuple(broken),
    )


def _odd(directory: Path, chance: random.Random, trials: int) -> Row:
    """Values of quotes, backslashes, line ends and pieces of our own formats: every file loads and fits its schema."""
    broken = []
    for at in range(trials):
        value = "".join(chance.choices(_ODD, k=chance.randint(4, 12)))
        case = planted.small_case(directory / str(at), f"it says {value}.")
        planted.with_program(case, _PROGRAM)
        planted.with_trace(case, [({"artifact": {"name": value, value: 1}}, f"# {value}")])
        files = planted.bundle_of(case, {"DB_PASSWORD": value, "NOTE": f"{value}x"}, BundleOptions(trace="yes"))
        problems = [*planted.problems_of(files), *_left(files, value)]
        broken += [f"{value!r}: {problem}" for problem in problems[:1]]
        shutil.rmtree(directory / str(at))
    return Row(
        "every file loads and fits its schema, whatever was replaced in it",
        trials,
        trials - len(broken),
        broken=tuple(broken),
    )


def _left(files: dict[str, str], value: str) -> Iterator[str]:
    """Where a value of letters that no other text has was left."""
    return planted.left_in(files, (value,) if "Zk4Qw8" in value else ())
