"""Event features whose nanosecond timestamps overflow 32 bits in the generated C++.

kind:   accuracy
layer:  inductor
source: https://github.com/pytorch/pytorch/issues/175966 (an int64 arange is computed in int32)
run:    python examples/inductor_accuracy.py
seen:   torch 2.13.0, CPU: AssertionError from assert_close, wrong from the fourth timestamp on, exit 1
"""

import torch

NANOSECONDS = 10**9


class EventEncoder(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.project = torch.nn.Linear(width, width)

    def forward(self, features, start):
        hidden = torch.tanh(self.project(features))
        seconds = torch.arange(features.shape[0], dtype=torch.int64)
        stamps = start + seconds * NANOSECONDS
        return hidden * 0.5, stamps


def main():
    torch.manual_seed(0)
    model = EventEncoder()
    features, start = torch.randn(12, 16), torch.tensor([17])
    with torch.no_grad():
        expected_hidden, expected_stamps = model(features, start)
        hidden, stamps = torch.compile(model)(features, start)
    torch.testing.assert_close(hidden, expected_hidden)
    torch.testing.assert_close(stamps, expected_stamps)


if __name__ == "__main__":
    main()
