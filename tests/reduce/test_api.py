"""The example of docs/reference/python-api.md, as it is printed there."""

import re
import subprocess
import sys
from pathlib import Path

from root import ROOT

DOCS = ROOT / "docs" / "reference" / "python-api.md"


def test_the_example_runs_without_torch(tmp_path: Path) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example + "\nimport sys\nassert 'torch' not in sys.modules\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 fixpoint")
    assert "torch.sin" not in done.stdout
