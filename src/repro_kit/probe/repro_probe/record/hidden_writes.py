"""Watch for writes that autograd does not see, to tensors from which a backward is computed.

``x.data.add_(1)`` between a forward and its backward is such a write: it leaves the version of `x` as it was, so that
autograd takes the new values for the old ones. What is saved is the choice of whoever makes the backward: eager may
save a result where compiled code saves what it is computed from, so whatever an operator has read is watched too.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.protocol.findings import HIDDEN_WRITES

_MOST = 1 << 28  # bytes of copies that are kept at a time, in one process


def watch_hidden_writes(findings: FindingsDirectory) -> None:
    """Append a line to the findings for each tensor with other values, of the same version, in a backward."""
    when_imported("torch", lambda torch: _watch(torch, findings))


def _watch(torch: Any, findings: FindingsDirectory) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    watched = _Watched(torch, findings)

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            watched.read(args)  # after it: a batch norm writes its statistics unseen
            return result

    for watch in (torch.autograd.graph.saved_tensors_hooks(watched.pack, watched.unpack), Reads()):
        watch.__enter__()
        # Before the interpreter is gone that a hook needs; the last one that was entered ends first.
        atexit.register(watch.__exit__, None, None, None)


class _Watched:
    """Copies of what is saved and of what operators read, made after each operator: some write unseen themselves."""

    def __init__(self, torch: Any, findings: FindingsDirectory) -> None:
        self.torch, self.findings = torch, findings
        self.room = _MOST
        self._saved: list[_Saved] = []  # by an operator that has not ended
        self._reads: dict[int, tuple[weakref.ref[Any], int, _Copy]] = {}  # since the last backward
        self._is_backward = self._saves = False  # whether the last operators were of a backward, or save for one

    def pack(self, tensor: Any) -> _Saved:
        """Return what is kept of a saved tensor."""
        saved = _Saved(tensor)
        self._saved.append(saved)
        return saved

    def unpack(self, saved: _Saved) -> Any:
        """Return the saved tensor, and note each write that a version does not tell of."""
        self._is_backward = True
        self._compare(saved.tensor, saved.version, saved.copy)
        reads, self._reads = self._reads, {}
        for reference, version, read in reads.values():
            alive = reference()
            if alive is not None:
                self._compare(alive, version, read)
        return saved.tensor

    def read(self, values: Sequence[Any]) -> None:
        """Keep copies of what has been saved, and of the tensors in `values`, which an operator has read."""
        if self._saved and not self._saves:  # what was written before a graph begins is no matter of its backward
            self._saves = True
            known = [reference() for reference, _, _ in self._reads.values()]
            self._keep([tensor for tensor in known if tensor is not None])
        for saved in self._saved:
            saved.copy = self._copied(saved.tensor)
            saved.version = saved.tensor._version if saved.copy else 0
        self._saved.clear()
        if self.torch.is_grad_enabled():
            if self._is_backward:
                self._is_backward = self._saves = False
                self._reads.clear()
            self._keep(values)

    def _keep(self, values: Sequence[Any]) -> None:
        for value in values:
            if isinstance(value, (list, tuple)):
                self._keep(value)
            elif isinstance(value, self.torch.Tensor):
                self._reads.pop(id(value), None)
                copy = self._copied(value)
                if copy is not None:
                    self._reads[id(value)] = weakref.ref(value, self._forgetting(id(value))), value._version, copy

    def _forgetting(self, key: int) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            self._reads.pop(key, None)

        return forget

    def _copied(self, tensor: Any) -> _Copy | None:
        """Return a copy of a plain tensor, where there is room for one."""
        plain = type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.layout == self.torch.strided
        if not plain or tensor.is_inference() or tensor.device.type == "meta":
            return None
        size = tensor.numel() * tensor.element_size()
        if size > self.room:
            return None
        self.room -= size
        return _Copy(self, tensor.detach().clone(), size)

    def _compare(self, tensor: Any, version: int, copy: _Copy | None) -> None:
        changed = copy is not None and not (self._holds(tensor, copy.values) and _is_of_its_base(tensor))
        if changed and tensor._version == version:
            form = f"{tensor.dtype}".rpartition(".")[2]
            self.findings.append(HIDDEN_WRITES, f"{form}{list(tensor.shape)}")

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


class _Saved:
    """A saved tensor, with its version and a copy from the end of the operator that saves it."""

    version = 0
    copy: _Copy | None = None

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
