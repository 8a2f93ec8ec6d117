"""Which environment variables a report may show, and what the names of others tell."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Variables that change what torch.compile does; any other is left out, since a name alone does not make one harmless.
_ALLOWED = re.compile(
    r"(TORCH_COMPILE_\w+|TORCHDYNAMO_\w+|TORCHINDUCTOR_\w+|TORCH_LOGS|TORCH_TRACE|TORCH_BISECT_\w+|TRITON_CACHE_DIR|"
    r"PYTORCH_(CUDA_ALLOC_CONF|NO_CUDA_MEMORY_CACHING|JIT)|(OMP|MKL|OPENBLAS)_NUM_THREADS|KMP_\w+|CUDA_VISIBLE_DEVICES|"
    r"CUDA_LAUNCH_BLOCKING|CUBLAS_WORKSPACE_CONFIG|NVIDIA_TF32_OVERRIDE|ATEN_CPU_CAPABILITY|CXX|CC|"
    r"MALLOC_(ARENA_MAX|CHECK_|PERTURB_)|PYTHON(HASHSEED|OPTIMIZE|FAULTHANDLER)|RANK|WORLD_SIZE|LOCAL_RANK)"
)
#: Some of those tell whose run it is, or where its caches lie.
_OWN = re.compile(r"JOB_ID|(^|_)(HOST|PORT|URL|URI|REDIS)($|_)", re.IGNORECASE)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS(WORD|WD|PHRASE)?(_|$)|(^|_)PWD$|CREDENTIAL|(^|_|API)KEYS?($|_)|(^|_)AUTH($|_)|COOKIE|PRIVATE|SIGNATURE|"
    r"(^|_)(PAT|PIN|OTP|DSN|SALT|SESSION|LICENSE|WEBHOOK|LOGIN)($|_)",
    re.IGNORECASE,
)
#: Of the shell, the terminal and the system: their values are in every text.
_SYSTEMS = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TERM\w*|COLORTERM|SHELL|SHLVL|PATH|\w+_PATH|PWD|OLDPWD|HOME|EDITOR|VISUAL|PAGER|LESS\w*|LS_COLORS|"
    r"XDG_\w+|DISPLAY|DEBIAN_FRONTEND|PYTHON\w*|TZ|PS\d|HOSTTYPE|OSTYPE|MACHTYPE|NO_COLOR|CI|_|\w*_CORETYPE|"
    r"TORCH\w*|PYTORCH_\w+|TRITON_\w+|CUDA_\w+|NVIDIA_\w+|NV_\w+|NCCL_\w+|CONDA_\w+|VIRTUAL_ENV\w*|CMAKE_\w+|PYTEST_\w+|REPRO_\w+"
)


def is_allowed(name: str) -> bool:
    """Whether variable `name` bears on compilation, and may be shown."""
    return _ALLOWED.fullmatch(name) is not None and not _OWN.search(name) and not is_secret(name)


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret by the look of it."""
    return _SECRET.search(name) is not None and name not in ("PWD", "OLDPWD")


def is_systems(name: str) -> bool:
    """Whether the variable is one that every machine has."""
    own = _ALLOWED.fullmatch(name) is not None and not is_allowed(name)
    return _SYSTEMS.fullmatch(name) is not None and not is_secret(name) and not own


def allowed_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of `env` that bear on compilation."""
    return {name: env[name] for name in sorted(env) if is_allowed(name)}
