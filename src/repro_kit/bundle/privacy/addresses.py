"""Find private addresses in text: URLs, network shares, logins, e-mail addresses, hosts and IP addresses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from repro_kit.bundle.privacy.hosts import (
    HARMLESS_HOSTS,
    LABEL,
    Address,
    hosts_in,
    ips_in,
    is_machine,
    is_public,
    is_well_known,
)
from repro_kit.bundle.privacy.python_parts import joined_strings, prose_of
from repro_kit.bundle.privacy.spellings import with_line_ends

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
