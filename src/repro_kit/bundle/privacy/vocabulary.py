"""Words that are never replaced, and the part of an environment that may be shown, by allow-list."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import orjson

from repro_kit.case.stage_results import Environment
from repro_kit.templating import templates_dir

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


_WORDS = Path(__file__).with_name("words")
_SCHEMAS = Path(__file__).parents[2] / "schemas"
_LONGEST_PHRASE = 3  # words; a longer phrase of common words is private
#: Parts of the addresses that a report links to.
_ADDRESSES = {
    "https",
    "http",
    "github",
    "pytorch",
    "issues",
    "pull",
    "commit",
    "compare",
    "blob",
    "tree",
    "docs",
    "download",
}
_HOSTS = {"github.com", "gitlab.com", "bitbucket.org", "huggingface.co", "pytorch.org", "docs.pytorch.org", "localhost"}
#: First parts of dotted names whose parts may all be known words.
_ROOTS = {"torch", "pytorch", "aten", "prims", "triton", "inductor", "dynamo", "functorch", "builtins", "collections"}
_DEVICES = {"cpu", "cuda", "mps", "xpu", "meta"}
#: Common names of users, systems and machines.
_MACHINES = {
    "root", "user", "admin", "administrator", "guest", "test", "tester", "ubuntu", "debian", "fedora", "centos",
    "runner", "build", "builder", "docker", "vagrant", "nobody", "home", "work", "main", "master", "linux", "darwin",
    "windows", "local", "localhost", "host", "server", "developer", "jovyan", "x86_64", "aarch64", "arm64", "amd64",
    "true", "false", "none", "null", "enabled", "disabled", "default", "workspace", "project", "python",
}  # fmt: skip
_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|v?\d+([.:,+-]\w*)*|(x86_64|aarch64|arm64|linux|darwin)[\w.-]*|[\d.]+",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]{2,}")


class Vocabulary:
    """Knows which words have a meaning of their own in a report; `more` are the words of the current case."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._more = frozenset(word.lower() for word in more)

    def what(self, value: str) -> str:
        """Whose word `value` is, in words; empty for an unknown word. ``torch.nn.Linear`` and ``cuda:0`` are known."""
        word = value.lower().strip()
        if word in _HOSTS:
            return "the report"
        parts = [part for part in re.split(r"[./:]+", word) if part]
        if len(parts) > 1:
            is_known = _is_compound(parts) and all(part.isdigit() or self.what(part) for part in parts)
            return "torch" if is_known else ""
        if word in self._more:
            return "this case"
        return next((name for name, words in _known().items() if word in words), "")

    def is_common(self, value: str) -> bool:
        """Whether `value` is a number, a version, or a short phrase of common technical words."""
        if self.is_number(value) or self.what(value):
            return True
        words = [word for word in re.split(r"[\W_]+", value.lower()) if word]
        return 0 < len(words) <= _LONGEST_PHRASE and all(self._is_common_word(word) for word in words)

    def is_number(self, value: str) -> bool:
        """Whether `value` is a number or a version, which reveals nothing."""
        return _NUMBER.fullmatch(value) is not None

    def _is_common_word(self, word: str) -> bool:
        return word.isdigit() or word in _common() or bool(self.what(word))


def _is_compound(parts: Sequence[str]) -> bool:
    """Whether `parts` may be a dotted name of torch, or a device with its number."""
    return parts[0] in _ROOTS or (len(parts) == 2 and parts[1].isdigit() and parts[0] in _DEVICES)


@cache
def _known() -> dict[str, frozenset[str]]:
    return {
        "every machine": frozenset(_MACHINES),
        "Python": frozenset(
            word.lower() for word in (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *sys.stdlib_module_names)
        ),
        "torch": _read("torch.txt"),
        "the report": frozenset(word.lower() for word in _of_report()) | _ADDRESSES,
    }


@cache
def _common() -> frozenset[str]:
    return _read("common.txt")


def _read(name: str) -> frozenset[str]:
    return frozenset((_WORDS / name).read_text(encoding="utf-8").split())


def _of_report() -> Iterator[str]:
    """Fields and fixed values of the bundle's files, and the words of its scripts."""
    for path in sorted(_SCHEMAS.glob("*.schema.json")):
        yield from _fixed(orjson.loads(path.read_bytes()))
    for path in sorted(templates_dir().rglob("*.py.j2")):
        yield from _IDENTIFIER.findall(path.read_text(encoding="utf-8"))


def _fixed(schema: object) -> Iterator[str]:
    match schema:
        case {"properties": dict(properties), **rest}:
            yield from properties
            yield from _fixed([*properties.values(), rest])
        case {"enum": list(values), **rest}:
            yield from (value for value in values if isinstance(value, str))
            yield from _fixed(rest)
        case dict():
            yield from _fixed([*schema.values()])
        case list():
            for item in schema:
                yield from _fixed(item)


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
