"""Rank commits by how likely they caused the failure: the ones that touch what fails come first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

#: The directories of each layer of torch.compile.
LAYERS: dict[str, tuple[str, ...]] = {
    "dynamo": ("torch/_dynamo/", "torch/csrc/dynamo/", "torch/_guards.py", "torch/_higher_order_ops/", "torch/fx/"),
    "aot": ("torch/_functorch/", "torch/_subclasses/", "torch/fx/", "torch/csrc/autograd/"),
    "decomposition": ("torch/_decomp/", "torch/_refs/", "torch/_prims", "torch/_inductor/decomposition.py"),
    "inductor": ("torch/_inductor/", "torch/csrc/inductor/", "torch/_decomp/", ".ci/docker/"),
}
_KERNELS = "aten/src/ATen/"
#: Paths whose files are not installed.
_UNSHIPPED = re.compile(r"(^|/)(tests?|docs?|benchmarks?|examples?|\.github|\.ci|ci)/|\.(md|rst)$")
#: An exception: the version of triton that a nightly asks for.
_TRITON = re.compile(r"^\.ci/docker/(ci_commit_pins/triton|triton_)")
#: Operators whose names are English words. In a title, only ``aten.add``, ``torch.add`` and `` `add `` name them.
_ENGLISH = re.compile(
    r"add|all|any|bind|cat|clone|copy|detach|dot|equal|expand|fill|flip|gather|index|lift|"
    r"masked|max|mean|min|mode|mul|norm|pad|permute|prod|range|repeat|reshape|roll|round|"
    r"scatter|select|set|sort|split|squeeze|stack|std|sub|sum|take|transpose|unfold|unique|"
    r"var|view|where|zero"
)


@dataclass(frozen=True)
class Commit:
    """A commit, and the paths it touches."""

    sha: str
    title: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Between:
    """The commits after `old` up to `new`, oldest first. Both ends are commits of the main branch."""

    old: str
    new: str
    commits: tuple[Commit, ...] = ()
    problem: str = ""  # why there is no list


@dataclass(frozen=True)
class Clues:
    """Clues about the failure: the layer at fault, files of its traceback, operators that it names."""

    layer: str | None = None
    files: tuple[str, ...] = ()  # "codegen/cpp.py"
    ops: tuple[str, ...] = ()  # "aten.avg_pool2d_backward.default"


@dataclass(frozen=True)
class Ranked:
    """A commit with its score, and the reasons in words."""

    commit: Commit
    score: float
    why: str


def rank(commits: Sequence[Commit], clues: Clues) -> list[Ranked]:
    """The commits, likeliest first. Commits with equal scores keep their order."""
    ops = tuple(dict.fromkeys(stem for op in clues.ops if (stem := _stem(op))))
    ranked = [_ranked(commit, clues, ops) for commit in commits]
    return sorted(ranked, key=lambda candidate: -candidate.score)


def _ranked(commit: Commit, clues: Clues, ops: tuple[str, ...]) -> Ranked:
    shipped = [path for path in commit.paths if _TRITON.search(path) or not _UNSHIPPED.search(path)]
    reasons: list[tuple[float, str]] = []
    touched = [file for file in clues.files if any(_is_file(path, file) for path in shipped)]
    if touched:
        reasons.append((4, f"touches {touched[0]}, which is in the traceback"))
    named = [op for op in ops if _mentions(commit, op)]
    if named:
        reasons.append((5, f"names {named[0]}"))
    places = LAYERS.get(clues.layer or "", ())
    inside = _under(shipped, places)
    if inside:
        # A commit that touches only the layer says more than a commit that touches much else too.
        reasons.append((2 + len(inside) / len(commit.paths), f"touches {_shown(inside)}"))
    elif _under(shipped, (_KERNELS,)):
        reasons.append((1, "touches ATen"))
    if commit.paths and not shipped:
        return Ranked(commit, -1, "touches nothing that is installed")
    return Ranked(commit, sum(score for score, _ in reasons), ", ".join(reason for _, reason in reasons))


def _under(paths: Iterable[str], places: tuple[str, ...]) -> list[str]:
    return [path for path in paths if path.startswith(places)] if places else []


def _shown(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _is_file(path: str, file: str) -> bool:
    parts, wanted = PurePosixPath(path).parts, PurePosixPath(file).parts
    return parts[-len(wanted) :] == wanted


def _mentions(commit: Commit, op: str) -> bool:
    """Whether the title or a path names the operator, with underscores, dashes, blanks or nothing between the words."""
    name = "[-_ ]?".join(map(re.escape, op.replace("_", ""))) + r"(?:s|[-_ ]?(?:backward|forward))?(?![a-z0-9])"
    bare = re.compile(r"(?<![a-z0-9])" + name)
    titled = re.compile(r"(?:aten(?:::|\.)|torch\.|`)_*" + name) if _ENGLISH.fullmatch(op) else bare
    stems = (PurePosixPath(path).stem for path in commit.paths)
    return bool(titled.search(_apart(commit.title))) or any(bare.search(_apart(stem)) for stem in stems)


def _apart(text: str) -> str:
    """``DilatedMaxPool2d`` as ``dilated_max_pool2d``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def _stem(op: str) -> str:
    """The base name of an operator: ``avg_pool2d`` for ``aten._avg_pool2d_backward.default``."""
    parts = [part for part in op.split(".") if part not in ("torch", "ops", "aten", "prims", "nn", "functional")]
    name = parts[0].strip("_").lower() if parts else ""
    name = re.sub(r"(_backward|_forward|_default|_out)+$", "", name)
    return name if len(name) > 2 else ""
