"""Record the defaults of torch's settings, as the torch of this interpreter has them.

python scripts/record_defaults.py

Writes src/repro_kit/trace/insights/defaults.json from the trace of one plain compile in a clean environment; settings
that differ from machine to machine (paths, numbers of threads, what the hardware is) are left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "repro_kit" / "trace" / "insights" / "defaults.json"
PLAIN = "import torch; torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"
HOMES = {
    "dynamo_config": "torch._dynamo.config",
    "inductor_config": "torch._inductor.config",
    "functorch_config": "torch._functorch.config",
    "compiler_config": "torch.compiler.config",
}
OF_THE_MACHINE = re.compile(
    r"(?:^|[._])(?:dir|path|threads|cxx|TYPE_CHECKING|worker_start_method|is_\w+|arch|debug_dir_root)$|_dir$|_path$"
)


def main() -> None:
    clean = {key: value for key, value in os.environ.items() if not re.search("TORCH|DYNAMO|INDUCTOR|TRITON|AOT", key)}
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-c", PLAIN], env={**clean, "TORCH_TRACE": directory}, check=True)
        (log,) = Path(directory).glob("*.log")
        lines = [line for line in log.read_text().splitlines() if '{"compilation_metrics"' in line]
    metrics = json.loads(lines[-1][lines[-1].index('{"compilation_metrics"') :])["compilation_metrics"]
    recorded = {"torch": {"version": metrics["pytorch_version"].partition("+")[0]}}
    for key, home in HOMES.items():
        values = json.loads(metrics[key] or "{}")
        recorded[home] = {name: value for name, value in values.items() if same_everywhere(name, value)}
    TARGET.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")
    print(f"{sum(map(len, recorded.values()))} settings of torch {recorded['torch']['version']} in {TARGET}")


def same_everywhere(name: str, value: object) -> bool:
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain and not OF_THE_MACHINE.search(name) and "/" not in str(value)


if __name__ == "__main__":
    main()
