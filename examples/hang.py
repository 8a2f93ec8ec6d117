"""A recurrence over scalars whose backward takes Inductor for ever to compile.

kind:   compile-growth (seen first as a compile that does not end)
layer:  inductor
source: https://github.com/pytorch/pytorch/issues/148073 (compile time grows exponentially with the steps)
run:    timeout 60 python examples/hang.py
seen:   torch 2.13.0, CPU: no end in sight; each further step doubles the compile time, eager takes milliseconds
"""

import torch

STEPS = 20


def recurrence(a, b):
    sums, products = [a, b], [b, a]
    for _ in range(STEPS):
        total = sums[-1] + products[-1]
        product = sums[-1] * products[-1]
        sums.append(total)
        products.append(product)
    return torch.tanh(sums[-1] + products[-1])


def main():
    a = torch.full((), 0.1, requires_grad=True)
    b = torch.full((), 0.2, requires_grad=True)
    torch.compile(recurrence)(a, b).backward()
    print("gradients:", a.grad.item(), b.grad.item())


if __name__ == "__main__":
    main()
