"""Which compile, and which line of whose code: the locations that all insights refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from repro_kit.failure.failure import Frame
from repro_kit.trace.record import Record

_TORCH = re.compile(r"(?:^|/)(?:site|dist)-packages/torch/|(?:^|/)torch/_(?:dynamo|inductor|functorch|logging)/")
_LIBRARY = re.compile(r"(?:^|/)(?:site|dist)-packages/|/lib/python3[.\d]*/|^<|^\?$")
#: Files in every stack of a symbolic decision; the caller that needed the decision is above them.
_SHAPE_MACHINERY = re.compile(
    r"torch/(?:fx/experimental/(?:symbolic_shapes|sym_node|recording|validator)|_logging/\w+|_dynamo/utils)\.py$"
)


CodeKey = tuple[str, int | None, str, int]


@dataclass(frozen=True, order=True)
class CompileRef:
    """One compile: torch's compile id, the rank, the log (one for each process), and the run of ids in that log."""

    compile_id: str
    rank: int | None = None
    log: str = ""
    epoch: int = 0

    def __str__(self) -> str:
        facts = [f"rank {self.rank}"] if self.rank is not None else []
        facts += [f"ids begun anew, {self.epoch}"] if self.epoch else []
        return f"{self.compile_id} ({', '.join(facts)})" if facts else self.compile_id

    @property
    def code_key(self) -> CodeKey:
        """The identity of a code object in one process."""
        return self.log, self.rank, self.frame_id, self.epoch

    @property
    def number(self) -> int:
        """The number of the compile among those of its code: 2 of ``0/2``."""
        number = self.compile_id.rpartition("/")[2]
        return int(number) if number.isdigit() else 0

    @property
    def frame_id(self) -> str:
        """The part of the id that all compiles of one code object share: ``0`` of ``0/2``."""
        return self.compile_id.rpartition("/")[0] or self.compile_id


def ref_of(record: Record) -> CompileRef | None:
    """The compile of `record`; the metrics of a backward name it in their data."""
    compile_id = record.compile_id
    if record.event.endswith("compilation_metrics"):
        compile_id = record.text("compile_id") or compile_id
    return CompileRef(compile_id, record.rank, record.file, record.epoch) if compile_id else None


def is_torch(file: str) -> bool:
    """Whether `file` belongs to torch."""
    return bool(_TORCH.search(file))


def is_users(file: str) -> bool:
    """Whether `file` may be the user's own: neither torch's, nor an installed package's, nor of Python's library."""
    return bool(file) and not is_torch(file) and not _LIBRARY.search(file)


def users_own(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame in a file of the user's own."""
    return next((frame for frame in reversed(frames) if is_users(frame.file)), None)


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame outside of torch."""
    return next((frame for frame in reversed(frames) if not is_torch(frame.file)), None)


def framework_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of torch that needed a symbolic decision."""
    return next(
        (frame for frame in reversed(frames) if is_torch(frame.file) and not _SHAPE_MACHINERY.search(frame.file)), None
    )


@dataclass
class Files:
    """The user's files in stacks. Torch's messages name a file only by the end of its path."""

    seen: dict[str, None]

    @classmethod
    def none(cls) -> Files:
        """No files yet."""
        return cls({})

    def note(self, frames: Iterable[Frame]) -> None:
        """Remember the files of `frames`."""
        for frame in frames:
            if frame.file != "?":
                self.seen.setdefault(frame.file)

    def whole(self, file: str) -> str:
        """The only known path that ends in `file`; else `file`."""
        if file in self.seen:
            return file
        matches = [path for path in self.seen if path.endswith(file)]
        return matches[0] if len(matches) == 1 else file

    def placed(self, frame: Frame | None) -> Frame | None:
        """`frame` with its whole path."""
        return replace(frame, file=self.whole(frame.file)) if frame else None
