"""Which environment variables a report may show, and which ones are secret or common to all machines."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Variables that change what torch.compile does. All others are left out: no name proves that a value is harmless.
_ALLOWED = re.compile(
    r"(TORCH_COMPILE_\w+|TORCHDYNAMO_\w+|TORCHINDUCTOR_\w+|TORCH_LOGS|TORCH_TRACE|TORCH_BISECT_\w+|TRITON_CACHE_DIR|"
    r"PYTORCH_(CUDA_ALLOC_CONF|NO_CUDA_MEMORY_CACHING|JIT)|(OMP|MKL|OPENBLAS)_NUM_THREADS|KMP_\w+|CUDA_VISIBLE_DEVICES|"
    r"CUDA_LAUNCH_BLOCKING|CUBLAS_WORKSPACE_CONFIG|NVIDIA_TF32_OVERRIDE|ATEN_CPU_CAPABILITY|CXX|CC|"
    r"MALLOC_(ARENA_MAX|CHECK_|PERTURB_)|PYTHON(HASHSEED|OPTIMIZE|FAULTHANDLER)|RANK|WORLD_SIZE|LOCAL_RANK)"
)
#: Allowed names that still reveal who ran the job, or where its caches are.
_OWN = re.compile(r"JOB_ID|(^|_)(HOST|PORT|URL|URI|REDIS)($|_)", re.IGNORECASE)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS(WORD|WD|PHRASE)?(_|$)|(^|_)PWD$|CREDENTIAL|(^|_|API)KEYS?($|_)|(^|_)AUTH($|_)|COOKIE|PRIVATE|SIGNATURE|"
    r"(^|_)(PAT|PIN|OTP|DSN|SALT|SESSION|LICENSE|WEBHOOK|LOGIN)($|_)",
    re.IGNORECASE,
)
#: Variables of the shell, the terminal and the system: their values appear in any text.
_SYSTEMS = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TERM\w*|COLORTERM|SHELL|SHLVL|PATH|\w+_PATH|PWD|OLDPWD|HOME|EDITOR|VISUAL|PAGER|LESS\w*|LS_COLORS|"
    r"XDG_\w+|DISPLAY|DEBIAN_FRONTEND|PYTHON\w*|TZ|PS\d|HOSTTYPE|OSTYPE|MACHTYPE|NO_COLOR|CI|_|\w*_CORETYPE|"
    r"TORCH\w*|PYTORCH_\w+|TRITON_\w+|CUDA_\w+|NVIDIA_\w+|NV_\w+|NCCL_\w+|CONDA_\w+|VIRTUAL_ENV\w*|CMAKE_\w+|PYTEST_\w+|REPRO_\w+"
)


def is_allowed(name: str) -> bool:
    """Whether variable `name` affects compilation, and may be shown."""
    return _ALLOWED.fullmatch(name) is not None and not _OWN.search(name) and not is_secret(name)


def is_secret(name: str) -> bool:
    """Whether the name of the variable suggests that it holds a secret."""
    return _SECRET.search(name) is not None and name not in ("PWD", "OLDPWD")


def is_systems(name: str) -> bool:
    """Whether the variable is one that most machines have."""
    own = _ALLOWED.fullmatch(name) is not None and not is_allowed(name)
    return _SYSTEMS.fullmatch(name) is not None and not is_secret(name) and not own


def allowed_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of `env` that affect compilation."""
    return {name: env[name] for name in sorted(env) if is_allowed(name)}
