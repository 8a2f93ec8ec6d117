"""A cache whose rows are replaced by rows that are too narrow: eager refuses, the compiled function spreads one value.

kind:   validation-lost (eager raises, the compiled function returns a result)
layer:  decomposition (that of index_copy)
source: https://github.com/pytorch/pytorch/issues/144183 (index_copy does not compare the shapes)
run:    python examples/lost_shape_check.py
seen:   torch 2.7.1 to 2.11.0, CPU: AssertionError: the compiled function takes what eager refuses, exit 1
"""

import torch


def refresh(cache, rows, new):
    return torch.tanh(torch.index_copy(cache * 0.9, 0, rows, new + 1))


def refused(function):
    """Whether the function refuses rows with one column for a cache with four."""
    torch.manual_seed(0)
    try:
        function(torch.rand(3, 4), torch.tensor([0, 2]), torch.rand(2, 1))
    except RuntimeError:
        return True
    return False


def main():
    assert refused(refresh)
    if not refused(torch.compile(refresh)):
        raise AssertionError("the compiled function takes what eager refuses")


if __name__ == "__main__":
    main()
