"""A rolling window over a buffer that the step updates in place: AOTAutograd cannot rebuild the window.

kind:   runtime-error
layer:  aot
source: https://github.com/pytorch/pytorch/issues/198095 (view of an input that aliases a mutated input)
run:    python examples/aot_runtime_error.py
seen:   torch 2.13.0, CPU: AssertionError: incorrect out shape after application of ViewMeta sequence, exit 1
"""

import torch


def step(history, window, decay):
    """Decay the whole history; `window` is a view of its last rows."""
    history.mul_(decay)
    energy = torch.sqrt((history * history).sum())
    return window.view(-1), energy


def run(function):
    history = torch.arange(24.0).reshape(4, 6)
    return function(history, history[1:], 0.9)


def main():
    expected = run(step)
    actual = run(torch.compile(step, backend="aot_eager"))
    torch.testing.assert_close(actual, expected)


if __name__ == "__main__":
    main()
