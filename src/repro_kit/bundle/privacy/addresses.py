"""Find private addresses in text: URLs, network shares, logins, e-mail addresses, hosts, and IP addresses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from repro_kit.bundle.privacy.encodings_of_value import with_line_ends
from repro_kit.bundle.privacy.python_parts import joined_strings, prose_of

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
_BEGIN_OF_HOST, _END_OF_HOST = r"(?i)(?<![\w.@/\\-])(?P<host>", r")(?![\w(\[-]|\.\w)"
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
        rf"{_BEGIN_OF_HOST}(?:{LABEL}\.)+(?:{_PRIVATE_DOMAINS}){_END_OF_HOST}",
        rf"{_BEGIN_OF_HOST}(?:{LABEL}\.)+(?:internal|corp|intranet|lan|cluster|svc)\.(?:{LABEL}\.)*[a-z]{{2,}}{_END_OF_HOST}",
        rf"{_BEGIN_OF_HOST}(?:{LABEL}\.)+(?:com|org|net|edu|gov|mil|biz|cloud|(?:co|ac|or|ne)\.[a-z]{{2}}){_END_OF_HOST}",
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


_STORES = (
    "s3[an]?|gs|gcs|abfss?|wasbs?|adls?|az|hdfs|webhdfs|viewfs|dbfs|r2|oss|cos|swift|hf|minio|alluxio|jfs|lakefs|dvc"
)
_SERVERS = (
    r"mongodb(?:\+srv)?|postgres(?:ql)?(?:\+\w+)?|mysql(?:\+\w+)?|mssql(?:\+\w+)?|jdbc:\w+|snowflake|clickhouse|rediss?|"
    r"amqps?|kafka|nats|mqtts?|etcd|zk|consul|vault|wandb|mlflow|databricks|ldaps?|nfs|smb|cifs|tcp|udp|unix|grpcs?"
)
_WEB = r"https?|wss?|ftps?|sftp|ssh|git|git\+https?|git\+ssh|file"
#: A scheme, where a word begins or right after an escape or a colour, and the rest up to a space or a quote.
_URL = re.compile(
    rf"(?i)(?:\b(?:{_WEB}|{_STORES}|{_SERVERS})|"
    rf"(?:(?<=\\[nrt])|(?<=\[\dm)|(?<=\[\d\dm)|(?<=%[0-9A-F]{{2}}))(?:https?|file|s3|gs|hdfs|abfss?|tcp))"
    r"://(?P<rest>(?![/\s'\"<>)]*(?:\s|$))[^\s'\"<>`|\\^]+)"
)
_URL_END = re.compile(r"(?:[.,;:!?)\]}*]|&(?:quot|gt|lt|amp|#39|#x27);?)+$")
_AUTHORITY = re.compile(r"(?:[^/?#]*@)?(?P<host>\[[^\]]*\]|[^/?#:]*)(?::\d+)?")
_PLACEHOLDERS = tuple("{$%…<")  # how a URL in a template continues

_PART = r"[^\s'\"\\<>|*?]+"
_BEGIN = r"(?:(?<![\\\w])|(?<=[^\\]\\[nrt]))"
_SHARE = re.compile(
    rf"{_BEGIN}\\\\[A-Za-z0-9][\w.-]*\\[\w$.]{_PART}(?:\\{_PART})*"  # \\server\share\leaf
    rf"|{_BEGIN}\\\\\\\\[A-Za-z0-9][\w.-]*\\\\[\w$.]{_PART}(?:\\\\{_PART})*"  # as JSON and Python spell it
    r"|(?<=['\"])\\\\(?:\\\\)?[A-Za-z0-9][\w.-]*\\{1,2}[^'\"\n<>|*?]+(?=['\"])"  # with spaces
    rf"|(?<![\w:/<.])//[A-Za-z][\w-]*(?:\.[\w-]+)*/[\w$.-]+/{_PART}"
)
#: The form of scp and git: a login, a host, a path.
_SCP = re.compile(rf"(?<![\w.@/-])[\w.-]+@(?P<host>{LABEL}(?:\.{LABEL})*):(?P<path>~?[\w./-]*[A-Za-z/][\w./-]*)")

_MAIL = re.compile(
    rf"(?<![\w.+%-])(?P<local>[^\W_][\w.+%'-]*|\"[^\"\n@]{{1,40}}\")(?:@|%40|\\u0040|&#64;)"
    rf"(?P<domain>{LABEL}(?:\.{LABEL})*)(?![(\[])"
)
_TOP_LEVEL = re.compile(r"[^\W\d_]{2,}|xn--[\w-]+")
#: What follows an `@` in code (a matrix product), in symbols and in package names.
_NO_DOMAIN = re.compile(
    r"(?i)(?:self|cls|torch|np|jnp|numpy|math|plt|triton|functools|x|w)\..*"
    r"|.*\.(?:t|h|mt|mh|weight|bias|data|grad|shape|transpose|reshape|view|contiguous|detach|permute|py|so(?:\.\d+)?|pkl|jit)"
    r"|(?:glibc|cxxabi|glibcxx|gcc|cuda|nvidia|nccl)\w*[_.\d].*|v?\d+(?:\.\w+)*|plt|(?:.*\.)?openssh\.com"
)
_PERSON_BEFORE = re.compile(
    r"(?i)(?:\b(?:ssh|scp|rsync|sftp|user|login|by|from|as|e-?mail|to|for|cc|author|contact|ask|owner|account|name)\b"
    r"[\s:='\"<(]{0,4}(?:-\w+ \S+ )*|://|<)$"
)
_LINE_END = re.compile(r"\\+[nrt]")  # as JSON and Python spell them
_LOOK_BACK = 40


def addresses_in(text: str, name: str = "text.txt") -> Iterator[Address]:
    r"""Every private address in `text`; in a Python file (by its `name`), those in strings and comments.

    Strings are cut out of the source as it is: with real line ends for ``\n`` it would be no Python any more.
    """
    prose = prose_of(text) if name.endswith(".py") else text
    if name.endswith(".py"):
        yield from _continued_urls(text)
    flat = with_line_ends(prose)
    yield from _shares_in(prose)  # before unescaping, because ``\\temp`` is not a tab here
    yield from _shares_in(flat)
    rest = _LINE_END.sub("\n", _SHARE.sub(" ", flat))
    for pattern, search in ((_URL, _in_url), (_SCP, _in_login)):
        for match in pattern.finditer(rest):
            yield from search(match)
        rest = pattern.sub(" ", rest)
    yield from _mails(rest)
    yield from hosts_in(rest)
    yield from ips_in(rest)


def _continued_urls(source: str) -> Iterator[Address]:
    """The pieces of private URLs that Python source writes as several adjacent strings."""
    for strings in joined_strings(source):
        joined, ends = "".join(strings), list(itertools.accumulate(map(len, strings)))
        for match in _URL.finditer(joined) if len(strings) > 1 else ():
            for kind, url in _in_url(match):
                begin, until = match.start(), match.start() + len(url)
                cuts = [begin, *(end for end in ends if begin < end < until), until]
                if kind == "URL" and len(cuts) > 2:
                    yield from ((kind, joined[start:end]) for start, end in itertools.pairwise(cuts))


def _shares_in(text: str) -> Iterator[Address]:
    if "\\\\" in text or "//" in text:
        yield from (address for match in _SHARE.finditer(text) for address in _in_share(match))


def private_leaves(text: str) -> Iterator[str]:
    """The last components of the private URLs and network shares in `text`."""
    for match in _URL.finditer(text):
        for kind, url in _in_url(match):
            if kind == "URL":
                yield re.split(r"[?#]", url.partition("://")[2].partition("/")[2])[0].rstrip("/").rpartition("/")[2]
    for match in _SHARE.finditer(text):
        yield re.split(r"[\\/]", match[0].rstrip("\\/.,;:)"))[-1]


def _in_url(match: re.Match[str]) -> Iterator[Address]:
    url = _URL_END.sub("", match[0])
    scheme, _, rest = url.partition("://")
    authority = _AUTHORITY.match(rest)
    host = (authority["host"] if authority else "").lower()
    if not rest or rest.startswith(_PLACEHOLDERS) or "redacted_" in host:
        return
    if host in HARMLESS_HOSTS and scheme.lower() != "file":
        return
    if "@" not in rest.partition("/")[0] and is_public(rest, host):
        return
    yield "URL", url
    if len(host) >= 6 and ("." in host or is_machine(host)) and not (is_public(rest, host) or is_well_known(host)):
        yield "host", host


def _in_share(match: re.Match[str]) -> Iterator[Address]:
    yield "network share", match[0].rstrip(".,;:)")


def _in_login(match: re.Match[str]) -> Iterator[Address]:
    host = match["host"]
    if _NO_DOMAIN.fullmatch(host) or host.isdigit() or is_public(f"{host}/{match['path']}", host.lower()):
        return
    yield "login and path", match[0].rstrip(".")
    if len(host) >= 4 and ("." in host or is_machine(host)) and not is_well_known(host):
        yield "host", host


def _mails(text: str) -> Iterator[Address]:
    for match in _MAIL.finditer(text):
        domain = match["domain"]
        if _NO_DOMAIN.fullmatch(domain):
            continue
        if "." in domain:
            if _TOP_LEVEL.fullmatch(domain.rpartition(".")[2]):
                yield "e-mail address", match[0]
        elif len(domain) >= 3:
            before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
            if (re.search(r"\d|-", domain) and len(match["local"]) >= 3) or _PERSON_BEFORE.search(before):
                yield "user and host", match[0]
