"""Scripts for the bench of verdicts: healthy models in low precision, and programs that are invalid in eager, too."""

from __future__ import annotations

_BLOCK = """
class Block(nn.Module):
    def __init__(self, width, heads, drop=0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask=None):
        q, k, v = self.qkv(self.one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, mask, self.drop)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.two(x))


class Transformer(nn.Module):
    def __init__(self, words=500, width=128, heads=4, layers=4, drop=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads, drop) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens, mask=None):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


tokens = torch.randint(500, (4, 48))
"""
_HEAD = """import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
"""
_CONV = """
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.SiLU(),
    nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.Conv2d(64, 128, 1), nn.Hardswish(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
)
images = torch.randn(8, 3, 32, 32)
"""
_TRAIN = """
loss = F.cross_entropy(compiled({inputs}).float().flatten(0, -2), torch.randint({classes}, ({count},)))
loss.backward()
"""
#: The end of a script that only calls the model.
_CALL = "\nwith torch.no_grad():\n    torch.compile(model)({inputs})\n"

HEALTHY: dict[str, str] = {
    "transformer, bfloat16": _BLOCK + "model = Transformer().bfloat16().eval()" + _CALL.format(inputs="tokens"),
    "transformer, float16": _BLOCK + "model = Transformer().half().eval()" + _CALL.format(inputs="tokens"),
    "transformer training, bfloat16": _BLOCK
    + "compiled = torch.compile(Transformer(layers=2).bfloat16())"
    + _TRAIN.format(inputs="tokens", classes=500, count=4 * 48),
    "transformer with dropout, training": _BLOCK
    + "compiled = torch.compile(Transformer(layers=2, drop=0.1))"
    + _TRAIN.format(inputs="tokens", classes=500, count=4 * 48),
    "attention with a mask, float16": _BLOCK
    + "mask = torch.zeros(48, 48).half().masked_fill(torch.ones(48, 48).triu(1).bool(), float('-inf'))\n"
    + "model = Transformer(layers=2).half().eval()"
    + _CALL.format(inputs="tokens, mask"),
    "attention by hand, bfloat16": """
def model(q, k, v, keep):
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return scores.masked_fill(~keep, float("-inf")).softmax(-1) @ v
q, k, v = (torch.randn(2, 8, 64, 32, dtype=torch.bfloat16) for _ in range(3))
keep = torch.rand(64, 64) > 0.3
keep[torch.arange(64), torch.arange(64)] = True
"""
    + _CALL.format(inputs="q, k, v, keep"),
    "conv net, float16": _CONV + "model = net.half().eval()" + _CALL.format(inputs="images.half()"),
    "conv net, bfloat16": _CONV + "model = net.bfloat16().eval()" + _CALL.format(inputs="images.bfloat16()"),
    "batch norm training": _CONV
    + "compiled = torch.compile(net)\n"
    + _TRAIN.format(inputs="images", classes=10, count=8),
    "group norm and upsampling, float16": """
model = nn.Sequential(
    nn.Conv2d(4, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"),
    nn.Conv2d(32, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Mish(), nn.Conv2d(16, 4, 1),
).half().eval()
images = torch.randn(2, 4, 16, 16).half()
"""
    + _CALL.format(inputs="images"),
    "LSTM, bfloat16": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(32, 64, 2, batch_first=True), nn.Linear(64, 8)
    def forward(self, x):
        return self.head(self.rnn(x)[0])
model = Tagger().bfloat16().eval()
x = torch.randn(4, 20, 32).bfloat16()
"""
    + _CALL.format(inputs="x"),
    "GRU cell by hand, float16": """
cell = nn.GRUCell(16, 32).half()
def model(xs):
    h = torch.zeros(4, 32, dtype=torch.float16)
    for x in xs:
        h = cell(x, h)
    return h
xs = torch.randn(12, 4, 16).half()
"""
    + _CALL.format(inputs="xs"),
    "FFT filter": """
def model(x, taps):
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(taps, x.shape[-1]), x.shape[-1]).softmax(-1)
x, taps = torch.randn(8, 256), torch.randn(16)
"""
    + _CALL.format(inputs="x, taps"),
    "embedding bag, float16": """
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(1000, 64, mode="mean"), nn.Linear(64, 5)
    def forward(self, words, offsets):
        return torch.log_softmax(self.head(self.bag(words, offsets)), -1)
model = Bag().half().eval()
words, offsets = torch.randint(1000, (200,)), torch.arange(0, 200, 20)
"""
    + _CALL.format(inputs="words, offsets"),
    "top-k sampling, bfloat16": """
def model(logits):
    values, indices = (logits / 0.7).topk(40, -1)
    chances = values.float().softmax(-1)
    return indices.gather(-1, chances.argmax(-1, keepdim=True)), chances
logits = torch.randn(4, 5000).bfloat16()
"""
    + _CALL.format(inputs="logits"),
    "AdamW step": """
net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
rate = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=False)
def step(x):
    rate.zero_grad()
    loss = ((net(x) - x) ** 2).mean()
    loss.backward()
    rate.step()
    return loss.detach()
compiled = torch.compile(step)
for _ in range(3):
    compiled(torch.randn(32, 64))
""",
    "autocast training, bfloat16": """
net = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 10))
compiled = torch.compile(net)
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = compiled(torch.randn(32, 64))
F.cross_entropy(out.float(), torch.randint(10, (32,))).backward()
""",
    "RMS norm, rotary embedding, SwiGLU, bfloat16": """
class Layer(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.gate, self.up, self.down = nn.Linear(width, 256), nn.Linear(width, 256), nn.Linear(256, width)
    def forward(self, x, cos, sin):
        x = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.scale
        one, two = x.chunk(2, -1)
        x = torch.cat([one * cos - two * sin, two * cos + one * sin], -1)
        return x + self.down(F.silu(self.gate(x)) * self.up(x))
model = nn.ModuleList(Layer() for _ in range(3)).bfloat16()
def run(x, cos, sin):
    for layer in model:
        x = layer(x, cos, sin)
    return x
angles = torch.outer(torch.arange(32.0), 1.0 / 10000 ** (torch.arange(64) / 64))
with torch.no_grad():
    torch.compile(run)(torch.randn(2, 32, 128).bfloat16(), angles.cos().bfloat16(), angles.sin().bfloat16())
""",
    "losses of long sums, float16": """
def model(x, y):
    wide = x.float()
    return F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), wide.var(), x.std(-1), x.logsumexp(-1)
x, y = torch.randn(64, 2000).half(), torch.randn(64, 2000).half()
"""
    + _CALL.format(inputs="x, y"),
    "chaotic map, float32": """
def model(x):
    for _ in range(60):
        x = torch.sin(3.0 * x + 1.0) * 2.5
    return x
x = torch.rand(1000)
"""
    + _CALL.format(inputs="x"),
}
HEALTHY = {name: _HEAD + text for name, text in HEALTHY.items()}

#: Models of real size for planted wrong operators; each compiles one graph.
MODELS = {
    name: HEALTHY[name]
    for name in (
        "conv net, float16",
        "group norm and upsampling, float16",
        "RMS norm, rotary embedding, SwiGLU, bfloat16",
        "transformer, bfloat16",
    )
}

#: Calls on `x`, of shape 3 × 4, that are invalid: eager raises, and so does the compiled program.
_INVALID = {
    "shapes of a matmul": "x @ torch.ones(7, 7)",
    "reshape": "x.reshape(5, 5)",
    "view of a transposed tensor": "x.t().view(12)",
    "index": "x[torch.tensor([9])]",
    "concatenation": "torch.cat([x, x[:, :2]])",
    "broadcast": "x + torch.ones(5)",
    "gather": "x.gather(1, torch.full((3, 1), 8))",
    "embedding": "F.embedding(torch.tensor([40]), x)",
    "target of a cross entropy": "F.cross_entropy(x, torch.tensor([0, 1, 7]))",
    "shape of a layer norm": "F.layer_norm(x, (5,))",
    "channels of a convolution": "F.conv1d(x[None], torch.ones(2, 5, 1))",
    "groups": "F.group_norm(x[None], 2)",
    "probability of a dropout": "F.dropout(x, 1.5)",
    "inverse of zeros": "torch.linalg.inv(torch.zeros(3, 3) * x.sum())",
    "Cholesky factor": "torch.linalg.cholesky(-torch.eye(3) * x.sum().abs().add(1))",
    "mean of integers": "x.long().mean()",
    "write to a smaller tensor": "x[0].add_(x)",
    "dimension": "x.sum(dim=4)",
    "dtypes of a matmul": "x @ x.t().double()",
    "item of twelve": "x.item() + x",
    "scatter": "x.scatter(1, torch.full((3, 1), 9), 1.0)",
    "quantile": "x.quantile(1.5)",
}
_RAISING = """
def model(x):
    return {call}
for run in (model, torch.compile(model)):
    try:
        run(torch.rand(3, 4))
    except Exception as error:
        print(type(error).__name__)
    else:
        raise SystemExit("no exception")
"""
RAISING = {name: _HEAD + _RAISING.format(call=call) for name, call in _INVALID.items()}
