"""Scripts that raise errors for which the compiler is not to blame, and scripts whose eager run proves nothing."""

from __future__ import annotations

#: Without Inductor, whose native compiler takes long and has no part in the blame.
_COMPILED = "import os, sys, time, torch\n@torch.compile(backend='aot_eager')\ndef f(x):\n    return x * 2 + 1\n"
_STORE = (
    "import pathlib\nplace = pathlib.Path(__file__).with_suffix('.count')\n"
    "count = int(place.read_text()) if place.exists() else 0\nplace.write_text(str(count + 1))\n"
)
_BUG = "import torch\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {kind!r}\n"
_EAGER = "os.environ.get('TORCH_COMPILE_DISABLE') == '1'"

#: (name, source): for the errors of these scripts, nobody is blamed.
NOBODYS = {
    "sla_message": _COMPILED
    + "start = time.time()\nf(torch.ones(4))\n"
    + "if time.time() - start > 0.05:\n    raise RuntimeError('SLA missed: too long')\n",
    "sla_without_a_word": _COMPILED
    + "start = time.perf_counter()\nf(torch.ones(4))\nused = time.perf_counter() - start\nassert used < 0.05\n",
    "every_other_run": _COMPILED + _STORE + "f(torch.ones(4))\nif count % 2 == 0:\n    raise ValueError('not ready')\n",
    "every_other_check": _COMPILED
    + _STORE
    + "x = f(torch.ones(4)) + (count % 2 == 0)\n"
    + "if not torch.equal(x, torch.ones(4) * 3):\n    raise ValueError('off')\n",
    "every_third_run": _COMPILED + _STORE + "f(torch.ones(4))\nif count % 3 == 0:\n    raise KeyError('batch')\n",
    "too_many_files": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise OSError(24, 'Too many open files')\n",
    "full_disk": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise RuntimeError('No space left on device')\n",
    "lost_connection": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise ConnectionResetError('peer')\n",
    "wrapped_timeout": _COMPILED
    + f"f(torch.ones(4))\ntry:\n    if not {_EAGER}:\n        raise TimeoutError()\n"
    + "except OSError as error:\n    raise RuntimeError('loader failed') from error\n",
}
#: These scripts never see the variable TORCH_COMPILE_DISABLE, so their eager run proves nothing by the variable alone.
LOST_VARIABLE = {
    "cleared_environment": "import os\npath = os.environ['PATH']\nos.environ.clear()\nos.environ['PATH'] = path\n"
    + _BUG.format(kind="compile_error")
    + "torch.compile(torch.relu)(torch.ones(4))\n",
}
#: These scripts have wrong results, which must be reported as such.
WRONG_RESULTS = {
    "testing": _BUG.format(kind="accuracy")
    + "x = torch.randn(64)\ntorch.testing.assert_close(torch.compile(torch.relu)(x), torch.relu(x))\n",
    "plain_check": _BUG.format(kind="accuracy")
    + "x = torch.randn(64)\n"
    + "if not torch.allclose(torch.compile(torch.relu)(x), torch.relu(x)):\n    raise ValueError('off')\n",
}
