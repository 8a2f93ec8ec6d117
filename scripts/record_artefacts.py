"""Let the torch of this interpreter write its own artefacts, as tests/graph/reading/artefacts/VERSION.txt.

PYTHON scripts/record_artefacts.py [PROGRAM]…

PYTHON is any interpreter with a torch from 2.0 on; nothing of repro-kit is imported. Each artefact stands below a line
``##### KIND PROGRAM``. KIND says who wrote it: `runnable` is `save_graph_repro` of torch/_dynamo/repro/after_aot.py,
which also writes `fx_graph_runnable`; `launcher` is `generate_dynamo_fx_repro_string` of after_dynamo.py. Nothing of
this machine is in it: no settings, no variables, no paths.
"""

import io
import re
import sys
from pathlib import Path

import torch
import torch._dynamo
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.repro.after_aot import save_graph_repro
from torch._dynamo.repro.after_dynamo import generate_dynamo_fx_repro_string

TARGET = Path(__file__).parent.parent / "tests" / "graph" / "reading" / "artefacts"
COMMENTS = re.compile(r"^\s*#(?! \w+ was unsupported| reader).*\n|^torch\.\S+config\S* = .*\n", re.MULTILINE)


def small_constant(x):
    return x.relu() + torch.tensor(2)


def constants(x):
    return x.masked_fill(x > 0, float("-inf")) + torch.tensor([1.5, float("nan"), float("inf"), 0.0])


def sizes(x, y):
    return torch.nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear"), y.new_zeros(
        x.size(2) // 2 + y.size(0)
    )


def views(x):
    return x.t() @ x, x[1:].exp()


def types(x):
    return x.to(torch.float16), x.to(torch.complex64), x.to(torch.bool)


def pooled(x):
    return torch.nn.functional.max_pool2d(x, 2)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def repeated(x, repeats):
    return x.repeat_interleave(repeats, dim=0, output_size=6)


def dropped(x):
    return torch.nn.functional.dropout(x, 0.5)


def whole_numbers(x, index):
    return x[index], x.new_ones(3).scatter_add(0, index, x[:2, 0])


def trained(x, w):
    return (x @ w).tanh().sum()


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor([2.0, 3.0, 4.0, 5.0]))

    def forward(self, x):
        return self.linear(self.norm(x)) * self.scale


def inputs(name):
    torch.manual_seed(0)
    return {
        "sizes": lambda: (torch.randn(1, 3, 6, 8), torch.randn(5)),
        "pooled": lambda: (torch.randn(1, 2, 6, 6),),
        "repeated": lambda: (torch.randn(2, 4), torch.tensor([2, 4])),
        "whole_numbers": lambda: (torch.randn(3, 4), torch.tensor([2, 0])),
        "trained": lambda: (torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)),
        "layers": lambda: (torch.randn(2, 4),),
    }.get(name, lambda: (torch.randn(3, 4),))()


PROGRAMS = {
    "small_constant": small_constant,
    "constants": constants,
    "sizes": sizes,
    "views": views,
    "types": types,
    "pooled": pooled,
    "branches": branches,
    "repeated": repeated,
    "dropped": dropped,
    "whole_numbers": whole_numbers,
    "trained": trained,
    "layers": Layers(),
}


def artefacts(name):
    """The artefacts of one program: of Dynamo's graph, and of the aten graphs."""
    found = []

    def lowered(graph, arguments):
        text = io.StringIO()
        save_graph_repro(text, graph, arguments, "inductor", stable_output=True)
        found.append(("runnable", text.getvalue()))
        return make_boxed_func(graph.forward)

    def compiled(graph, arguments):
        try:
            text = generate_dynamo_fx_repro_string(graph, arguments, "inductor", stable_output=True)
            found.append(("launcher", text))
        except (TypeError, AssertionError) as error:
            print(f"  no launcher: {error}")
        table = torch._inductor.decomposition.select_decomp_table()
        backend = aot_autograd(fw_compiler=lowered, bw_compiler=lowered, decompositions=table)
        return backend(graph, arguments)

    import torch._inductor.decomposition
    import torch._inductor.lowering  # of the operators that a decomposition may choose

    torch._dynamo.reset()
    call = inputs(name)
    with torch.set_grad_enabled(name == "trained"):
        result = torch.compile(PROGRAMS[name], backend=compiled, dynamic=name == "sizes")(*call)
    if name == "trained":
        result.backward()
    return found


def main():
    wanted = sys.argv[1:] or list(PROGRAMS)
    lines = [f"# Written by torch {torch.__version__} (scripts/record_artefacts.py)."]
    for name in wanted:
        print(name)
        try:
            found = artefacts(name)
        except Exception as error:  # one torch cannot compile what another can
            print(f"  left out: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        for kind, text in found:
            lines += [f"##### {kind} {name}", re.sub(r"\n{2,}", "\n", COMMENTS.sub("", text)).strip()]
    TARGET.mkdir(exist_ok=True)
    path = TARGET / f"{torch.__version__.partition('+')[0]}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
