"""The storages of tensors."""

from __future__ import annotations

import torch


def pointer_of(tensor: torch.Tensor) -> int:
    """Return the address of the storage of a strided tensor; 0 where there is none, as for a ZeroTensor."""
    return 0 if tensor._is_zerotensor() else tensor.untyped_storage().data_ptr()
