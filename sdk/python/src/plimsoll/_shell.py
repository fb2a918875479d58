"""What both shells do alike: build a request, read an answer whole, name what was lost."""

from __future__ import annotations

import httpx

from ._calls import MAX_BODY
from ._effects import Answer, Lost, Send
from .backoff import SECOND

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
"""Each caller that waits holds a connection, so their number is not bounded here."""

_UNHEARD = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def request_of(send: Send) -> httpx.Request:
    """Build a request."""
    seconds = send.within / SECOND
    timeout = httpx.Timeout(seconds).as_dict()
    return httpx.Request(
        send.method, send.url, headers=dict(send.headers), content=send.body, extensions={"timeout": timeout}
    )


def answer_of(response: httpx.Response, body: bytes) -> Answer:
    """Return an answer that was read whole."""
    return Answer(response.status_code, dict(response.headers), body)


def lost(err: Exception) -> Lost:
    """Say why no answer came. The text names neither token nor headers: httpx puts none into it."""
    if isinstance(err, (httpx.TimeoutException, TimeoutError)):
        return Lost("it did not answer in time", heard=not isinstance(err, _UNHEARD))
    return Lost(str(err) or type(err).__name__, heard=not isinstance(err, _UNHEARD))


class Body:
    """The bytes of an answer so far. One that is longer than any is not read to its end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> bool:
        """Take one more part; False says that there are too many."""
        self._size += len(part)
        self._parts.append(part)
        return self._size <= MAX_BODY

    def whole(self) -> bytes:
        """Return what came."""
        return b"".join(self._parts)
