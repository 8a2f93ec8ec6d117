"""``python -m repro_probe.query.unpack_storages``: write the storages that PyTorch's minifier kept as tensor files.

The input is a JSON list of ``{"storage": path, "dtype": "torch.float32", "sizes": [2, 3], "target": path}``. The
minifier writes its storages with ``ContentStoreWriter`` (torch/utils/_content_store.py).
"""

from __future__ import annotations

import json
import math
import sys

import torch

from repro_probe.common import torch_environment
from repro_probe.protocol.programs import StorageData


def main() -> None:
    """Write every tensor that the input asks for."""
    orders: list[StorageData] = json.load(sys.stdin)
    place = None if torch_environment.accelerator(torch) else "cpu"  # they may have been saved on an accelerator
    for order in orders:
        loaded = torch.load(order["storage"], map_location=place, weights_only=True)
        storage = getattr(loaded, "_untyped_storage", loaded)
        dtype = getattr(torch, order["dtype"].replace("torch.", ""))
        flat = torch.empty(0, dtype=dtype, device=storage.device).set_(storage)
        torch.save(flat[: math.prod(order["sizes"])].reshape(order["sizes"]).clone(), order["target"])


if __name__ == "__main__":
    main()
