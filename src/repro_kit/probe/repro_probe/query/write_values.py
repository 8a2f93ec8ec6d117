"""``python -m repro_probe.query.write_values``: write stored tensors as files that a program of this machine can load.

The input is a JSON list of `ValueOrder`; the output is the number of files that were written.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import torch

from repro_probe.common import torch_environment
from repro_probe.protocol.orders import ValueOrder, WrittenValues


def main() -> None:
    """Write every file that the input asks for."""
    orders: list[ValueOrder] = json.load(sys.stdin)
    for order in orders:
        torch.save(_of_minifier(order) if "dtype" in order else _load(order, "cpu"), order["target"])
    written: WrittenValues = {"written": len(orders)}
    print("\n" + json.dumps(written))


def _load(order: ValueOrder, place: str | None) -> Any:
    return torch.load(order["source"], map_location=place, weights_only=True)


def _of_minifier(order: ValueOrder) -> torch.Tensor:
    """Return the tensor whose storage the minifier kept (``ContentStoreWriter``, torch/utils/_content_store.py)."""
    loaded = _load(order, None if torch_environment.accelerator(torch) else "cpu")  # it may be an accelerator's
    storage = getattr(loaded, "_untyped_storage", loaded)
    dtype = getattr(torch, order["dtype"].replace("torch.", ""))
    flat = torch.empty(0, dtype=dtype, device=storage.device).set_(storage)
    return flat[: math.prod(order["sizes"])].reshape(order["sizes"]).clone()


if __name__ == "__main__":
    main()
