"""Read a URL: ``file``, or http(s) with or without credentials in the URL."""

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
_PASSING = (408, 425, 429)  # HTTP statuses that pass: request timeout, too early, too many requests
FIRST_PAUSE = 1.0  # seconds before the second try; doubles
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")


class WebError(Exception):
    """A URL cannot be read.

    `missing`: the server says that it does not exist; `lasting`: another try would fail in the same way.
    """

    def __init__(self, message: str, *, missing: bool = False, lasting: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.lasting = missing or lasting


@contextmanager
def opened(url: str, *, accept: str = "*/*", method: str = "GET") -> Iterator[Any]:
    """The response to a request for `url`. Raises WebError with the reason."""
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
        missing = error.code in (403, 404, 410)  # object stores answer 403 for an object that does not exist
        lasting = 400 <= error.code < 500 and error.code not in _PASSING
        message = f"{without_credentials(url)}: HTTP {error.code} {error.reason}"
        raise WebError(message, missing=missing, lasting=lasting) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        missing = isinstance(reason, FileNotFoundError | IsADirectoryError)
        raise WebError(f"{without_credentials(url)}: {reason}", missing=missing) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Send credentials only to the host that they were given for, not to a host that it redirects to."""

    def redirect_request(self, req: urllib.request.Request, *args: Any) -> urllib.request.Request | None:
        redirected = super().redirect_request(req, *args)
        if redirected is not None and _host(redirected.full_url) != _host(req.full_url):
            redirected.remove_header("Authorization")
        return redirected


def persistently(action: Callable[[], T]) -> T:
    """Call `action`; try again after a pause when the network fails. Raises the last WebError."""
    for attempt in range(_TRIES):
        try:
            return action()
        except WebError as error:
            if error.lasting or attempt == _TRIES - 1:
                raise
            time.sleep(FIRST_PAUSE * 2**attempt)
    raise AssertionError("unreachable")


def with_credentials(url: str, index: str | None) -> str:
    """`url` with the credentials of the index that listed it, when both are on the same host."""
    theirs, parts = urlsplit(index or ""), urlsplit(url)
    if theirs.username is None or parts.username is not None or _host(index or "") != _host(url):
        return url
    return urlunsplit(parts._replace(netloc=f"{theirs.netloc.rpartition('@')[0]}@{parts.netloc}"))


def without_credentials(text: str) -> str:
    """A URL, or text with URLs in it (``--index-url=https://…``, ``name @ https://…``), without credentials."""
    return _CREDENTIALS.sub("", text)


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()
