"""Watch for writes that autograd does not see, to tensors that it has saved for a backward.

``x.data.add_(1)`` between a forward and its backward is such a write: it leaves the version of `x` as it was, so that
autograd takes the new values for the old ones. What is saved is the choice of whoever makes the backward.
"""

from __future__ import annotations

import atexit
from typing import Any

from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.protocol.findings import HIDDEN_WRITES

_MOST = 1 << 28  # bytes of copies that are kept at a time, in one process


def watch_hidden_writes(findings: FindingsDirectory) -> None:
    """Append a line to the findings for each saved tensor with other values, of the same version, in its backward."""
    when_imported("torch", lambda torch: _watch(torch, findings))


def _watch(torch: Any, findings: FindingsDirectory) -> None:
    watched = _Watched(torch, findings)
    hooks = torch.autograd.graph.saved_tensors_hooks(watched.pack, watched.unpack)
    hooks.__enter__()
    atexit.register(hooks.__exit__)  # before the interpreter is gone that the hooks need


class _Watched:
    def __init__(self, torch: Any, findings: FindingsDirectory) -> None:
        self.torch, self.findings = torch, findings
        self.room = _MOST

    def pack(self, tensor: Any) -> tuple[Any, int, Any]:
        """Return what is kept of a saved tensor: itself, its version, and a copy where there is room for one."""
        size = tensor.numel() * tensor.element_size()
        plain = type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.layout == self.torch.strided
        if not plain or tensor.is_inference() or size > self.room:
            return tensor, 0, None
        self.room -= size
        return tensor, tensor._version, _Copy(self, tensor.detach().clone(), size)

    def unpack(self, packed: tuple[Any, int, Any]) -> Any:
        """Return the saved tensor, and note a write that its version does not tell of."""
        tensor, version, copy = packed
        changed = copy is not None and not (self._holds(tensor, copy.values) and _is_of_its_base(tensor))
        if changed and tensor._version == version:
            form = f"{tensor.dtype}".rpartition(".")[2]
            self.findings.append(HIDDEN_WRITES, f"{form}{list(tensor.shape)}")
        return tensor

    def _holds(self, tensor: Any, values: Any) -> bool:
        """Whether `tensor` has these values; NaN stays NaN."""
        with self.torch.no_grad():
            if tensor.shape != values.shape or tensor.dtype != values.dtype:
                return False
            now = tensor.detach()
            return bool(((now == values) | ((now != now) & (values != values))).all())


def _is_of_its_base(tensor: Any) -> bool:
    """Whether `tensor` is no view, or still one: of a weight with other ``.data``, eager alone has the old values."""
    base = tensor._base
    if base is None or base.layout != tensor.layout:
        return True
    return bool(base.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr())


class _Copy:
    """A copy of a saved tensor's values, which gives its room back at its end."""

    def __init__(self, watched: _Watched, values: Any, size: int) -> None:
        self.watched, self.values, self.size = watched, values, size

    def __del__(self) -> None:
        self.watched.room += self.size
