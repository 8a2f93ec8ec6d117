"""A function is compiled ahead of time, and timestamps overflow 32 bits in the loaded artifact: no error is raised.

kind:   accuracy
layer:  inductor
source: https://github.com/pytorch/pytorch/issues/175966 (an int64 arange is computed in int32), met by way of
        torch.compiler.precompile, which torch has since 2.15
run:    python examples/precompiled_overflow.py
seen:   torch 2.15.0, CPU: AssertionError from assert_close, wrong from the fourth timestamp on, exit 1
"""

import tempfile

import torch

NANOSECONDS = 10**9


def stamps(start, features):
    seconds = torch.arange(features.shape[0], dtype=torch.int64)
    return start + seconds * NANOSECONDS, torch.tanh(features) * 0.5


def main():
    torch.manual_seed(0)
    start, features = torch.tensor([17]), torch.randn(12, 16)
    with tempfile.TemporaryDirectory() as directory:
        files = {"artifact_path": f"{directory}/stamps.py", "cache_path": f"{directory}/stamps.cache"}
        with torch.compiler.precompile.capture(stamps, **files) as capture:
            capture(start, features)
        loaded = torch.compiler.precompile.load(*files.values())
    torch.testing.assert_close(loaded(start, features), stamps(start, features))


if __name__ == "__main__":
    main()
