"""Which compile, and where in whose code: what every insight points at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.record import Record

_TORCH = re.compile(r"(?:^|/)(?:site|dist)-packages/torch/|(?:^|/)torch/_(?:dynamo|inductor|functorch|logging)/")
#: Files that every symbolic decision passes through; who asked stands above them.
_SHAPE_MACHINERY = re.compile(
    r"torch/(?:fx/experimental/(?:symbolic_shapes|sym_node|recording|validator)|_logging/\w+|_dynamo/utils)\.py$"
)


CodeKey = tuple[str, int | None, str]


@dataclass(frozen=True, order=True)
class CompileRef:
    """One compile: torch's compile id, the rank, and the log that tells of it (one a process)."""

    compile_id: str
    rank: int | None = None
    log: str = ""

    def __str__(self) -> str:
        return self.compile_id if self.rank is None else f"{self.compile_id} (rank {self.rank})"

    @property
    def code_key(self) -> CodeKey:
        """What tells all compiles of one code object in one process from others."""
        return self.log, self.rank, self.frame_id

    @property
    def frame_id(self) -> str:
        """What all compiles of one code object share: ``0`` of ``0/2``."""
        return self.compile_id.rpartition("/")[0] or self.compile_id


def ref_of(record: Record) -> CompileRef | None:
    """The compile that `record` belongs to; metrics of a backward name theirs in the data."""
    compile_id = record.compile_id
    if record.event.endswith("compilation_metrics"):
        compile_id = record.text("compile_id") or compile_id
    return CompileRef(compile_id, record.rank, record.file) if compile_id else None


def is_torch(file: str) -> bool:
    """Whether `file` is torch's own."""
    return bool(_TORCH.search(file))


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame that is not torch's."""
    return next((frame for frame in reversed(frames) if not is_torch(frame.file)), None)


def framework_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of torch that asked for a symbolic decision."""
    return next(
        (frame for frame in reversed(frames) if is_torch(frame.file) and not _SHAPE_MACHINERY.search(frame.file)), None
    )


@dataclass
class Files:
    """The user's files seen in stacks: torch's messages name a file by the end of its path only."""

    seen: dict[str, None]

    @classmethod
    def none(cls) -> Files:
        """Before any record."""
        return cls({})

    def note(self, frames: Iterable[Frame]) -> None:
        """Remember the files of `frames`."""
        for frame in frames:
            if frame.file != "?":
                self.seen.setdefault(frame.file)

    def whole(self, file: str) -> str:
        """The one path that ends in `file`; `file` where none or several do."""
        if file in self.seen:
            return file
        found = [path for path in self.seen if path.endswith(file)]
        return found[0] if len(found) == 1 else file

    def placed(self, frame: Frame | None) -> Frame | None:
        """`frame` with its whole path."""
        return replace(frame, file=self.whole(frame.file)) if frame else None
