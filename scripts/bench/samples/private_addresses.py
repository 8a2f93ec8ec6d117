"""Private paths, hosts and addresses in texts, and what looks like them and must stay: none belongs to anybody."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

LOWER = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Planted:
    """A text, and the parts of it that must not be left."""

    form: str
    text: str
    private: tuple[str, ...]
    name: str = "text.txt"


def _word(rng: random.Random) -> str:
    """A name that no list has: what customers, projects and machines are called."""
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randrange(3, 6)))


def _leaf(rng: random.Random) -> str:
    end = rng.choice(["csv", "parquet", "jsonl", "pt", "safetensors", "h5", "npz", "tar.gz", "pkl", "txt", "sqlite"])
    return f"{_word(rng)}{rng.choice('-_')}{_word(rng)}{rng.choice('-_')}{rng.randrange(2015, 2030)}.{end}"


def _folders(rng: random.Random, separator: str = "/") -> str:
    return separator.join(_word(rng) for _ in range(rng.randrange(1, 4)))


def _quad(rng: random.Random) -> str:
    first = rng.choice(["10", "192.168", "172.20", "100.64", "52", "34", "203"])
    return ".".join([first, *(str(rng.randrange(1, 255)) for _ in range(3 - first.count(".")))])


def _six(rng: random.Random) -> str:
    return ":".join(
        [rng.choice(["2001:db8:", "fd12:3456:", "fe80:"]), *(f"{rng.randrange(16, 65535):x}" for _ in range(3))]
    )


def _internal(rng: random.Random) -> str:
    ends = ["internal", "local", "lan", "corp", "corp.example.com", "intranet.example", "svc.cluster.local"]
    return f"{_word(rng)}{rng.randrange(1, 99):02}.{_word(rng)}.{rng.choice(ends)}"


def _mail(rng: random.Random) -> str:
    top = rng.choice(["com", "museum", "io", "technology", "co.jp", "рф", "münchen", "xn--p1ai", "internal", "zip"])
    return f"{_word(rng)}.{_word(rng)}{rng.choice(['', '+x'])}@{_word(rng)}.{top}"


def _with_leaf(template: str) -> Callable[[random.Random], tuple[str, tuple[str, ...]]]:
    def made(rng: random.Random) -> tuple[str, tuple[str, ...]]:
        leaf, folders = _leaf(rng), _folders(rng)
        text = (
            template.replace("{back}", folders.replace("/", "\\")).replace("{folders}", folders).replace("{leaf}", leaf)
        )
        return text, (PurePosixPath(leaf).stem.removesuffix(".tar"), folders.partition("/")[0])

    return made


def _whole(make: Callable[[random.Random], str]) -> Callable[[random.Random], tuple[str, tuple[str, ...]]]:
    def made(rng: random.Random) -> tuple[str, tuple[str, ...]]:
        value = make(rng)
        return value, (value,)

    return made


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


#: A value and the parts of it that are private, by the form.
FORMS: dict[str, Callable[[random.Random], tuple[str, tuple[str, ...]]]] = {
    "POSIX path": _with_leaf("/mnt/{folders}/{leaf}"),
    "path in a home": _with_leaf("/home/somebody/{folders}/{leaf}"),
    "tilde path": _with_leaf("~/{folders}/{leaf}"),
    "Windows path": _with_leaf("D:\\{back}\\{leaf}"),
    "Windows path, slashes": _with_leaf("D:/{folders}/{leaf}"),
    "network share": _with_leaf("\\\\fileserver\\{back}\\{leaf}"),
    "file URL": _with_leaf("file:///srv/{folders}/{leaf}"),
    "S3": _with_leaf("s3://{folders}/{leaf}"),
    "GCS": _with_leaf("gs://{folders}/{leaf}"),
    "Azure": _with_leaf("abfss://c@store.dfs.core.windows.net/{folders}/{leaf}"),
    "HDFS": _with_leaf("hdfs://namenode:8020/{folders}/{leaf}"),
    "web": _with_leaf("https://files.example.net/{folders}/{leaf}"),
    "one-word host": _with_leaf("http://intranet:8080/{folders}/{leaf}"),
    "scp": _with_leaf("deploy@store7:/{folders}/{leaf}"),
    "internal host": _whole(_internal),
    "host and port": _whole(lambda rng: f"{_word(rng)}-{rng.randrange(9)}:{rng.randrange(1000, 65000)}"),
    "IPv4": _whole(_quad),
    "IPv6": _whole(_six),
    "e-mail": _whole(_mail),
    "database URL": _whole(lambda rng: f"postgresql://{_word(rng)}:{_word(rng)}@{_word(rng)}:5432/{_word(rng)}"),
}  # fmt: skip

#: (before, after, how the value is spelt, the file's name) by the name of the context.
CONTEXTS: dict[str, tuple[str, str, Callable[[str], str], str]] = {
    "message": ("ConnectionError: cannot reach host ", " (timed out)", str, "text.txt"),
    "quoted": ("FileNotFoundError: [Errno 2] No such file or directory: '", "'", _escaped, "text.txt"),
    "json": ('{"source": "', '", "n": 3}', _escaped, "run.json"),
    "log in json": ('{"at": "reading from\\n', '\\nnext"}', _escaped, "run.json"),
    "python": ("SOURCE = '", "'\n", _escaped, "train.py"),
    "comment": ("x = 1  # read from ", "\n", str, "train.py"),
    "python, escape after": ("SOURCE = '", "\\n'\n", _escaped, "train.py"),
    "python, escape before": ("SOURCE = 'see:\\n", "'\n", _escaped, "train.py"),
    "python, tab before": ("SOURCE = 'see:\\t", "\\t(old)'\n", _escaped, "train.py"),
    "python, escape in an earlier string": ("print('done\\n', '", "', sep='\\t')\n", _escaped, "train.py"),
    "python, escape on another line": ("print('done\\n')\nSOURCE = '", "'\nprint('\\n')\n", _escaped, "train.py"),
    "python, several lines": ('"""Train.\n\nUse \\t or \\n.\nData: ', '\n"""\n', _escaped, "train.py"),
    "f-string": ("print(f'{x}\\n", " {y:>{width}}\\n')\n", _escaped, "train.py"),
    "bytes": ("SOURCE = b'a\\n'\nprint('", "\\n')\n", _escaped, "train.py"),
    "comment after an escape": ("x = 'a\\n'  # read from ", "\n", str, "train.py"),
    "python, not complete": ("print('done\\n'\nSOURCE = '", "\\n'\n", _escaped, "train.py"),
    "argv": ("argv: ['train.py', '--data', '", "']", _escaped, "text.txt"),
    "assignment": ("MASTER_ADDR=", "\n", str, "text.txt"),
    "yaml": ("source:\n  host: ", "\n  n: 3\n", str, "x.yaml"),
    "markdown": ("Data is at `", "`, ask for it. The server is there.", str, "README.md"),
    "log line": ("2026-03-01 12:00:00,123 INFO connecting to ", " now", str, "text.txt"),
    "traceback": ('  File "/usr/lib/x.py", line 3\n    connect(host="', '")', _escaped, "text.txt"),
}  # fmt: skip


def planted(count: int, seed: int = 0) -> Iterator[Planted]:
    """`count` texts, over all forms and contexts in turn; a data file's name stands alone in each once more."""
    rng = random.Random(seed)
    pairs = [(form, context) for form in FORMS for context in CONTEXTS]
    rng.shuffle(pairs)
    for at in range(count):
        form, context = pairs[at % len(pairs)]
        value, private = FORMS[form](rng)
        before, after, spell, name = CONTEXTS[context]
        yield Planted(f"{form}, {context}", before + spell(value) + after, private, name)


def leaf_alone(count: int, seed: int = 0) -> Iterator[Planted]:
    """Texts that have a path of a data file, and the file's name once more without it."""
    rng = random.Random(seed)
    for _ in range(count):
        leaf, folders = _leaf(rng), _folders(rng)
        root = rng.choice(["/mnt", "s3://bucket", "file:///srv", "/home/somebody", "//nas/share"])
        text = f"reading '{root}/{folders}/{leaf}'\n... later: KeyError while parsing {leaf}, row 7\n"
        yield Planted("leaf alone", text, (leaf,))


#: What must stay as it is.
HARMLESS = (
    "the hash is 7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069",
    "reset to the commit 2c1f9e0a7b64f2fd0d4c3c5c54ac8ef3a2b1c0d9",
    "nvidia-cublas-cu12 12.4.5.8",
    "nvidia-curand-cu12==10.3.5.147",
    "torch 2.13.0.1",
    "version 2.13.0.1",
    "libcudnn.so.9.1.0.70",
    "cuda-nvrtc-10.1.2.89-py3.whl",
    "at 04:19:24.314000",
    "x[1::2, ::3] + y[2::2]",
    "shape (10, 20, 30, 40)",
    "1.2.3.4.5.6",
    "listening on 0.0.0.0:29500 and 127.0.0.1, localhost:8080",
    "[::1]:80",
    "c10::add",
    "::add",
    "dead::beef",
    "torch.distributed.rpc.internal",
    "threading.local()",
    "self._version.local",
    "y = x@self.weight",
    "h = q@k.T",
    "out = a@b.mT",
    "memcpy@GLIBC_2.14",
    "actions/checkout@v4",
    "malloc@plt",
    "@torch.compile",
    "uv@0.5",
    "compile_fx.py:1315",
    "cpp_prefix.h:50",
    "cuda:0",
    "resnet-50:224",
    "layer4:2048",
    "batch:1000",
    "GPU:80",
    "size:4096",
    "max-width:100",
    "triton_poi_fused_native_layer_norm_0",
    "cpp_fused__to_copy_add_relu_threshold_backward_12",
    "cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8",
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
        "_kernel__5x_cublas"
    ),
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AF1EM1_AMAS3_ASE_ASGT",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
    "/tmp/torchinductor_root/y2/cy23wvpen62uyf7od6vykwguxsmasszgzaae2wprz4znnsjdwiwf.main.cpp",
    "fx graph cache key fcy23wvpen62uyf7od6vykwguxsmasszgzaae2wprz4znnsjdwiw",
    "'backend_hash': '712B1D69F892A891D8FFA5075DCAB47CFF4E132D88BFC66744701CEAE226F127'",
    '"has_payload": "98696a967131e5fafe595f7ec2e727bc"',
    '"commit": "cf30153c4c131c8164ee7798e5022d810682e2cb"',
    "# torch git version: cf30153c4c131c8164ee7798e5022d810682e2cb",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "compile id 0/0_1, run 7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "HEAD is at 83c1eb2",
    "0x7f3a2c1d5e80",
    "0xdeadbeefcafebabe",
    'arg0_1: "f32[8, 3, 3, 3][27, 9, 3, 1]cpu"',
    "primals_12, tangents_1, getitem_37, L_self_modules_conv_parameters_weight_",
    "torch.ops.aten.convolution_backward.default(getitem_4, relu_2, primals_7, [0], [1, 1], [1, 1])",
    "https://github.com/pytorch/pytorch/issues/148073",
    "https://docs.pytorch.org/docs/main/torch.compiler_troubleshooting.html",
    "https://docs.python.org/3/library/re.html#re.Match",
    "http://www.w3.org/2000/svg",
    "https://download.pytorch.org/whl/nightly/cpu",
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html",
    "git@github.com:pytorch/pytorch.git",
    "/usr/lib/python3.11/site-packages/torch/_inductor/compile_fx.py",
    "/proc/self/status",
    "torch/_x/y.py a/b/c",
    "std::vector<at::Tensor>::push_back",
    "s0*s1 - 1 <= 9223372036854775807",
    "1e-05, 3.141592653589793, 0.30000000000000004",
    "Eq(Mod(s0, 8), 0)",
    "key = query @ key.transpose(-2, -1)",
    "sk-learn-compatible-estimator-interface",
    "fw_graph_module_with_a_long_name_2",
    "task-force-of-the-scheduler-group-12",
    "disk-cache-of-the-autotuner-1",
    "re_compute_gradients_for_layer_2",
    "grad_fn=<HardshrinkBackward0>, <BaddbmmBackward0>, <LstmMpsBackward0>",
    "ConvBnReLU2dAndLinearReLU",
    "pin_memory=True, pin_memory_device=cuda, pinned 12345678",
    "KEY = base64.b64encode(key).decode()",
    "password is required, secret: optional, passphrase: the words that you know",
)
