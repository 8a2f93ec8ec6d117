"""Scripts that export are refused; those that may compile as well are not."""

from __future__ import annotations

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.session.script.export_scripts import refuse_export


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("import torch\ntorch.export.export(m, ())", "draft_export"),
        ("from torch.export import export as e\ne(m, ())", "torch.export"),
        ("import torch.export as te\nte.export(m, ())", "torch.export"),
        ("from torch import export\nexport.export(m, ())", "torch.export"),
        ("import re, torch\nre.compile('x')\ntorch.export.export(m, ())", "torch.export"),
        ("from re import compile\nimport torch\ntorch.export.export(m, ())", "torch.export"),
        ("import torch._inductor\ntorch._inductor.aoti_compile_and_package(p)", "AOTInductor"),
        ("import torch\nep = torch.export.export(m, ())\ntorch._inductor.aot_compile(ep, ())", "AOTInductor"),
    ],
)
def test_refused(tmp_path, text, part):
    (tmp_path / "x.py").write_text(text)
    with pytest.raises(ReproKitError, match=r"no torch\.compile") as caught:
        refuse_export(tmp_path / "x.py", "x.py")
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.compile(m)\ntorch.export.export(m, ())",
        "from torch import compile\nfrom torch.export import export\n",
        "import torch\nmodel.compile()\ntorch.export.export(m, ())",
        "import torch\nTrainer(torch_compile=True)\ntorch.export.export(m, ())",
        "import torch\n@torch._dynamo.optimize('inductor')\ndef f(): torch.export.export(m, ())",
        "import helper, torch\ntorch.export.export(m, ())",
        "print('no torch at all')",
        "exporter.export.export(m)",
        "match x:\n  case 1 as",
    ],
)
def test_let_through(tmp_path, text):
    (tmp_path / "helper.py").write_text("import torch\nf = torch.compile(g)\n")
    (tmp_path / "x.py").write_text(text)
    refuse_export(tmp_path / "x.py", "x.py")
