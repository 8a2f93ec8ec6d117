"""Reading a URL: http(s) with credentials in it, and file."""

from __future__ import annotations

import base64
import http.client
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
_PAUSE = 1.0  # seconds before the second try; doubles


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
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        missing = error.code in (403, 404, 410)  # object stores answer 403 for what is not there
        raise WebError(f"{without_credentials(url)}: HTTP {error.code} {error.reason}", missing=missing) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        missing = isinstance(reason, FileNotFoundError | IsADirectoryError)
        raise WebError(f"{without_credentials(url)}: {reason}", missing=missing) from error


def persistently(action: Callable[[], T]) -> T:
    """`action`, once more after a pause where the network failed it."""
    for attempt in range(_TRIES):
        try:
            return action()
        except WebError as error:
            if error.lasting or attempt == _TRIES - 1:
                raise
            time.sleep(_PAUSE * 2**attempt)
    raise AssertionError("unreachable")


def with_credentials(url: str, index: str | None) -> str:
    """`url` with the credentials of the index that named it, when it is on the same host."""
    theirs, parts = urlsplit(index or ""), urlsplit(url)
    if theirs.username is None or parts.username is not None or theirs.hostname != parts.hostname:
        return url
    return urlunsplit(parts._replace(netloc=f"{theirs.netloc.rpartition('@')[0]}@{parts.netloc}"))


def without_credentials(url: str) -> str:
    """`url` as it may be shown."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if parts.username is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
