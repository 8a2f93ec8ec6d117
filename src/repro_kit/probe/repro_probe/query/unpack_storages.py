"""``python -m repro_probe.query.unpack_storages``: write the storages that PyTorch's minifier kept as tensor files.

On stdin a JSON list of ``{"storage": path, "dtype": "torch.float32", "sizes": [2, 3], "target": path}``. They are
written by ``ContentStoreWriter`` (torch/utils/_content_store.py).
"""

from __future__ import annotations

import json
import math
import sys

import torch

from repro_probe.protocol.programs import StorageData


def main() -> None:
    """Write every target."""
    asked: list[StorageData] = json.load(sys.stdin)
    for it in asked:
        loaded = torch.load(it["storage"], weights_only=True)
        storage = getattr(loaded, "_untyped_storage", loaded)
        dtype = getattr(torch, it["dtype"].replace("torch.", ""))
        flat = torch.empty(0, dtype=dtype, device=storage.device).set_(storage)
        torch.save(flat[: math.prod(it["sizes"])].reshape(it["sizes"]).clone(), it["target"])


if __name__ == "__main__":
    main()
