"""A small GPT in training under bfloat16 autocast, with a wrong gradient (torch's injection switch)."""

import torch
import torch.nn.functional as F
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.set_float32_matmul_precision("high")


class Attention(torch.nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.qkv, self.out, self.heads = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d), heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.attention = Attention(d, 4)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(d, 4 * d), torch.nn.ReLU(), torch.nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class GPT(torch.nn.Module):
    def __init__(self, vocab=256, d=64, layers=3):
        super().__init__()
        self.tok, self.pos = torch.nn.Embedding(vocab, d), torch.nn.Embedding(128, d)
        self.layers = torch.nn.ModuleList(Layer(d) for _ in range(layers))
        self.head = torch.nn.Linear(d, vocab)

    def forward(self, ids, targets):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


torch.manual_seed(1)
model = GPT().to("cuda")
compiled = torch.compile(model)
ids = torch.randint(0, 256, (4, 64), device="cuda")


def step(m):
    model.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = m(ids, ids.roll(-1, 1))
    loss.backward()
    return loss.item(), model.layers[0].mlp[0].weight.grad.norm().item()


a, b = step(model), step(compiled)
print(a, b)
assert abs(a[1] - b[1]) < 0.02 * abs(a[1]), f"gradient norms differ: {a[1]} and {b[1]}"
