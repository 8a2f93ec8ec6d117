"""Find names of private hosts, and IP addresses. Public hosts are listed; every other host is private."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

#: Hosts that may be shown, with their subdomains: documentation, standards, where packages come from.
_PUBLIC_HOSTS = tuple(
    re.split(
        r"\s+",
        "pytorch.org python.org pypi.org pythonhosted.org readthedocs.io w3.org json-schema.org apache.org arxiv.org "
        "wikipedia.org stackoverflow.com cppreference.com docs.nvidia.com developer.nvidia.com nvidia.github.io "
        "docs.google.com developers.google.com learn.microsoft.com docs.microsoft.com msdn.microsoft.com numpy.org "
        "scipy.org sympy.org onnx.ai llvm.org gcc.gnu.org boost.org godbolt.org man7.org meta-pytorch.github.io "
        "pytorch.github.io ui.perfetto.dev cli.github.com fburl.com openreview.net doi.org cmake.org ninja-build.org "
        "rocm.docs.amd.com conda.io docs.astral.sh netlib.org abseil.io tensorflow.org open-std.org software.intel.com "
        "pytest.org pypa.io hypothesis.works pydantic.dev pydata.org scikit-learn.org matplotlib.org jupyter.org "
        "ipython.org sphinx-doc.org gnu.org rust-lang.org docs.github.com",
    )
)
#: Hosts whose pages are public by their first directories.
_PUBLIC_PLACES = re.compile(
    r"(?:github\.com|raw\.githubusercontent\.com|api\.github\.com/repos)/(?:pytorch|python|triton-lang|openai/triton|"
    r"meta-pytorch|numpy|scipy|sympy|NVIDIA|ROCm|intel|pybind|onnx|pypa|microsoft/onnxruntime|fmtlib|facebookresearch|"
    r"google|huggingface/(?:transformers|diffusers|accelerate)|owner/name|tensorflow|llvm|astral-sh|conda|conda-forge|pytest-dev|"
    r"HypothesisWorks)"
    r"(?![\w-])|huggingface\.co/docs\b|gist\.github\.com/(?:shunting314|eellison)\b|www\.internalfb\.com\b"
)
_WELL_KNOWN = re.compile(
    r"(?:www\.|api\.|raw\.|gist\.)?(?:github|gitlab|google|huggingface|amazonaws|githubusercontent|example)\.\w+"
)
HARMLESS_HOSTS = frozenset(
    {"localhost", "localhost.localdomain", "0.0.0.0", "127.0.0.1", "[::1]", "host", "hostname", "example.com"}
)
_HARMLESS_IPS = frozenset({"0.0.0.0", "127.0.0.1", "255.255.255.255", "255.255.255.0", "::1", "::"})

LABEL = r"[^\W_](?:[\w-]*[^\W_])?"
_BEGIN, _END = r"(?i)(?<![\w.@/\\-])(?P<host>", r")(?![\w(\[-]|\.\w)"
#: Domains of private networks.
_PRIVATE_DOMAINS = (
    r"internal|local|localdomain|lan|corp|intranet|intra|private|home|home\.arpa|prod|staging|dmz|svc|consul|"
    r"ts\.net|compute\.amazonaws\.com"
)
_AFTER_WORD = (
    r"(?i)(?<![a-z])(?:resolve host(?:name)?|unknown host|no route to host|master_addr|ssh|host(?:name)?s?)"
    r"['\"]?(?:[:=]\s*|\s+)(?:-\w+ +)*['\"]?(?P<host>(?=[\w.]*[\d.-])[A-Za-z][\w-]*(?:\.[\w-]+)*)(?![\w(\[]|\.\w)"
)
_NAMES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_BEGIN}(?:{LABEL}\.)+(?:{_PRIVATE_DOMAINS}){_END}",
        rf"{_BEGIN}(?:{LABEL}\.)+(?:internal|corp|intranet|lan|cluster|svc)\.(?:{LABEL}\.)*[a-z]{{2,}}{_END}",
        rf"{_BEGIN}(?:{LABEL}\.)+(?:com|org|net|edu|gov|mil|biz|cloud|(?:co|ac|or|ne)\.[a-z]{{2}}){_END}",
        _AFTER_WORD,
    )
)
#: First parts of dotted names in Python.
_PYTHON = re.compile(
    r"(?i)(?:torch|self|cls|threading|_?thread|info|config|args|cfg|os|np|v|std|math|functools|contextvars|asyncio|"
    r"masked|version|sys|env)\."
)
_FILE = re.compile(
    r"(?i).*\.(?:py|pyc|pyi|pyx|c|cc|cpp|cxx|cu|cuh|h|hpp|inl|js|ts|rs|go|java|txt|log|md|sh|json|toml|yaml|yml|html|"
    r"css|so|ipynb|s|ll|ptx|cfg|ini|csv|svg)"
)
#: Words before a host, an address or a connection.
_NETWORK = (
    r"(?:host(?:name)?|master_addr|addr(?:ess)?|server|node|peer|endpoint|ip(?:v[46])?|dns|gateway|proxy|broker|client|"
    r"remote|connect(?:ed|ing|ion)?|reach|resolve|lookup|dial|ping|ssh|scp|rsync|rdzv\w*|rendezvous|listen(?:ing)?|bind|"
    r"tcp|udp|redis|postgres\w*|mysql|mongo\w*|kafka|database|db|store|worker|machine)"
)
_HOST_PORT = re.compile(rf"(?<![\w.@/\\:-])(?P<host>{LABEL}(?:\.{LABEL})*):(?P<port>\d{{2,5}})(?![\w.:-]|, line|\])")
_NETWORK_BEFORE = re.compile(rf"(?i)\b\w*{_NETWORK}\w*\b[^\n]{{0,40}}$")
_RIGHT_BEFORE = re.compile(r"(?i)(?:\b|_)(?:to|at|host|server|address|addr|endpoint)['\"]?[\s:='\"]{0,4}$|//$")
_MACHINE = re.compile(
    r"(?i)(?:db|node|host|srv|server|gpu|dgx|vm|worker|master|head|nas|cache|redis|sql|pg|api|web|app|prod|dev|stage|k8s|ip)"
    r"[\w-]*\d\w*|(?=[\w-]*\d)[a-z]+-[\w-]+"
)

_PORTS = frozenset({8000, 8080, 8888, 9200, 50000, 5432, 6379, 3306, 27017, 29500})

_IPV4 = re.compile(r"(?:(?<![\w.])|(?<=\\n))(?P<ip>\d{1,3}(?:\.\d{1,3}){3})(?![\w]|\.\d|-py|-cp|\.dev|\+)")
_VERSION_BEFORE = re.compile(
    r"(?i)(?:==|>=|<=|~=|!=|[<>]|\bv|\bversions?\W{0,3}|\brelease\W{0,3}|\.so\.?|[\w.]-cu\d\d\W{0,30}|"
    r"\b(?:torch|cuda|cudnn|cublas|nccl|triton|python|driver|rocm|gcc|clang|numpy|mkl|runtime|toolkit)\W{1,3})['\"]?$"
)
_IP_BEFORE = re.compile(
    rf"(?i)(?:\b|_){_NETWORK}['\"]?\W{{0,6}}(?:to|at|from|is|by|on|for|host|address)?\W{{0,3}}$"
    r"|\b(?:to|from|at|via|on)[\s(]+$|[/@(]$"
)
_PRIVATE_NET = re.compile(
    r"(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\."
)
_LARGE = 32  # the first parts of version numbers are smaller

_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?![\w:])")
_GLOBAL_V6 = re.compile(r"(?i)(?:fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|2001|2[46]0[0-9a-f]|2a0[0-9a-f]|64:ff9b|::ffff):")
_MAC = re.compile(r"(?<![\w:-])(?=[0-9:-]*[A-Fa-f])[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])")

Address = tuple[str, str]  # kind and value


def is_public(address: str, host: str) -> bool:
    """Whether an address, given from its `host` on, may be shown.

    An address that was cut off within a public host may be shown, too.
    """
    listed = any(host == public or host.endswith("." + public) for public in _PUBLIC_HOSTS)
    cut = address == host and len(host) >= 6 and any(public.startswith(host) for public in _PUBLIC_HOSTS)
    return listed or cut or bool(_PUBLIC_PLACES.match(address))


def is_well_known(host: str) -> bool:
    """Whether everybody uses `host`: its name is not private, though its pages may be."""
    return _WELL_KNOWN.fullmatch(host.lower()) is not None


def is_machine(label: str) -> bool:
    """Whether a single word looks like the name of a machine (``db01``, ``train-7``)."""
    return _MACHINE.fullmatch(label) is not None


def hosts_in(text: str) -> Iterator[Address]:
    """Names of private hosts: recognised by their domain, their port, or the text before them."""
    for pattern in _NAMES:
        for match in pattern.finditer(text):
            if not _is_no_host(match["host"]):
                yield "host", match["host"]
    for match in _HOST_PORT.finditer(text):
        host, before = match["host"], text[max(0, match.start() - 60) : match.start()]
        if _is_no_host(host) or re.fullmatch(r"[\d.]+", host):
            continue
        telling = _NETWORK_BEFORE.search(before)
        if ("." in host and (telling or _MACHINE.match(host))) or (telling and is_machine(host)):
            yield "host", host
        elif (telling and _RIGHT_BEFORE.search(before)) or (is_machine(host) and _is_port(int(match["port"]))):
            yield "host", match[0]


def _is_port(number: int) -> bool:
    """Whether `number` is probably a port: typical tensor sizes are not."""
    plain_size = number % 128 == 0 if number < 16384 else number & (number - 1) == 0
    return number in _PORTS or (1024 < number < 65536 and not plain_size)


def _is_no_host(host: str) -> bool:
    plain = host.lower()
    harmless = plain in HARMLESS_HOSTS or is_well_known(plain) or is_public(host, plain)
    return harmless or "redacted" in plain or bool(_PYTHON.match(host) or _FILE.fullmatch(host))


def ips_in(text: str) -> Iterator[Address]:
    """IP and hardware addresses, but not versions, slices or times."""
    for match in _IPV4.finditer(text):
        before, after = text[max(0, match.start() - 48) : match.start()], text[match.end() : match.end() + 6]
        if _is_ipv4(match["ip"], before, after):
            yield "IP address", match["ip"]
    for match in _IPV6.finditer(text):
        if _is_ipv6(match[0]):
            yield "IP address", match[0]
    for match in _MAC.finditer(text):
        yield "hardware address", match[0]


def _is_ipv4(value: str, before: str, after: str) -> bool:
    try:
        IPv4Address(value)
    except AddressValueError:
        return False
    if value in _HARMLESS_IPS or value.startswith("127.") or _VERSION_BEFORE.search(before):
        return False
    if re.match(r":\d{2,5}\b|/\d{1,2}\b", after) or _IP_BEFORE.search(before) or _PRIVATE_NET.match(value):
        return True
    return any(int(part) >= _LARGE for part in value.split(".")[:2])


def _is_ipv6(value: str) -> bool:
    try:
        IPv6Address(value)
    except AddressValueError:
        return False
    groups = [group for group in value.split(":") if group]
    if value in _HARMLESS_IPS or not any(map(str.isdigit, value)):
        return False
    if _GLOBAL_V6.match(value) or len(groups) >= 4:
        return True
    return len(groups) == 3 and any(len(group) >= 3 for group in groups)
