"""The part of an environment that may be shown, by allow-list."""

from __future__ import annotations

import re
from dataclasses import replace

from repro_kit.case.stage_results import Environment
from repro_kit.model.variables import is_allowed

#: Packages that take part in compiling and running a model, and that everybody can install.
_PUBLIC = re.compile(
    r"torch(?:vision|audio|text|data|ao|rec|tune|titan|metrics|codec|ft|x|elastic|-xla|-geometric|-scatter|-sparse)?"
    r"|pytorch[-_](?:triton(?:[-_](?:rocm|xpu))?|lightning)|triton(?:[-_]windows|[-_]rocm)?|lightning(?:[-_]utilities)?"
    r"|nvidia[-_][\w-]+|cuda[-_](?:bindings|pathfinder|python|toolkit)|intel[-_](?:openmp|extension-for-pytorch)|mkl|tbb"
    r"|numpy|scipy|pandas|scikit[-_]learn|pillow|sympy|mpmath|networkx|jinja2|markupsafe|filelock|fsspec|typing[-_]extensions"
    r"|transformers|tokenizers|safetensors|huggingface[-_]hub|accelerate|diffusers|datasets|evaluate|peft|trl|timm|einops"
    r"|sentencepiece|xformers|flash[-_]attn|vllm|deepspeed|bitsandbytes|apex|optree|functorch|jax|jaxlib|tensorflow|onnx"
    r"|onnxruntime|onnxscript|expecttest|hypothesis|pytest|pip|setuptools|wheel|uv|ninja|cmake|packaging|psutil|pyyaml"
    r"|requests|tqdm|tlparse|repro-kit|cupy[-\w]*|numba|llvmlite|ray|fairscale|monai|kornia|opt[-_]einsum|ml[-_]dtypes",
    re.IGNORECASE,
)
#: A line of torch's environment report that names a package: ``[pip3] numpy==2.1``, ``[conda] numpy  2.1``.
_LISTED = re.compile(r"\[(?:pip\d?|conda)\]\s+(?P<name>[\w.-]+?)(?:==|\s|$)")


def shareable(environment: Environment) -> Environment:
    """`environment` without private parts.

    The repository, unknown packages and unknown variables are left out.
    """
    return replace(
        environment,
        git=None,
        packages={name: version for name, version in environment.packages.items() if is_public(name)},
        variables={name: value for name, value in environment.variables.items() if is_allowed(name)},
        collect_env="\n".join(line for line in environment.collect_env.split("\n") if _may_show(line)),
    )


def is_public(package: str) -> bool:
    """Whether `package` is publicly known."""
    return _PUBLIC.fullmatch(package) is not None


def _may_show(line: str) -> bool:
    listed = _LISTED.match(line)
    return listed is None or is_public(listed["name"])
