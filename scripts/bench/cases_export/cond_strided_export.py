"""`torch.export` of a `cond` whose branches return a strided slice of a dynamic size; eager takes it."""

import torch


class Choose(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Linear(8, 8)

    def forward(self, rows, first):
        rows = torch.relu(self.scale(rows))

        def even(part):
            return part[:, ::2].index_add(1, torch.tensor([0, 3]), torch.ones(5, 2))

        def odd(part):
            return part[:, 1::2] - 3.0

        return torch.cond(first, even, odd, (rows,)) * 2


def main():
    torch.manual_seed(0)
    model = Choose().eval()
    inputs = torch.randn(5, 8), torch.tensor(True)
    with torch.no_grad():
        model(*inputs)
        torch.export.export(model, inputs)


if __name__ == "__main__":
    main()
