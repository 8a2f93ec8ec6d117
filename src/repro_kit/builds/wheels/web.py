"""Reading a URL: http(s) with credentials in it, and file."""

from __future__ import annotations

import base64
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from repro_kit import __version__

T = TypeVar("T")

_TRIES = 3
_TIMEOUT = 60.0  # seconds without a byte
_PASSING = (408, 425, 429)  # too slow, too early, too many
FIRST_PAUSE = 1.0  # seconds before the second try; doubles
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")


class WebError(Exception):
    """A URL that cannot be read.

    `missing`: the server says that there is no such thing; `lasting`: another try would end alike.
    """

    def __init__(self, message: str, *, missing: bool = False, lasting: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.lasting = missing or lasting


@contextmanager
def opened(url: str, *, accept: str = "*/*", method: str = "GET") -> Iterator[Any]:
    """The answer to a request for `url`. Raises WebError with the reason."""
    request = urllib.request.Request(without_credentials(url), method=method)
    request.add_header("User-Agent", f"repro-kit/{__version__}")
    request.add_header("Accept", accept)
    parts = urlsplit(url)
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    try:
        with urllib.request.build_opener(_Redirects).open(request, timeout=_TIMEOUT) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        missing = error.code in (403, 404, 410)  # object stores answer 403 for what is not there
        lasting = 400 <= error.code < 500 and error.code not in _PASSING
        told = f"{without_credentials(url)}: HTTP {error.code} {error.reason}"
        raise WebError(told, missing=missing, lasting=lasting) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        missing = isinstance(reason, FileNotFoundError | IsADirectoryError)
        raise WebError(f"{without_credentials(url)}: {reason}", missing=missing) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Credentials are for the host that they were given for: what it redirects to does not get them."""

    def redirect_request(self, req: urllib.request.Request, *args: Any) -> urllib.request.Request | None:
        found = super().redirect_request(req, *args)
        if found is not None and _host(found.full_url) != _host(req.full_url):
            found.remove_header("Authorization")
        return found


def persistently(action: Callable[[], T]) -> T:
    """`action`, once more after a pause where the network failed it."""
    for attempt in range(_TRIES):
        try:
            return action()
        except WebError as error:
            if error.lasting or attempt == _TRIES - 1:
                raise
            time.sleep(FIRST_PAUSE * 2**attempt)
    raise AssertionError("unreachable")


def with_credentials(url: str, index: str | None) -> str:
    """`url` with the credentials of the index that named it, when it is on the same host."""
    theirs, parts = urlsplit(index or ""), urlsplit(url)
    if theirs.username is None or parts.username is not None or _host(index or "") != _host(url):
        return url
    return urlunsplit(parts._replace(netloc=f"{theirs.netloc.rpartition('@')[0]}@{parts.netloc}"))


def without_credentials(text: str) -> str:
    """A URL, or text with URLs in it (``--index-url=https://…``, ``name @ https://…``), as it may be shown."""
    return _CREDENTIALS.sub("", text)


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()
