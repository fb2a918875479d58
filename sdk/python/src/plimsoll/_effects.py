"""What the pure part asks its shell to do, and what it hears of it.

A program is a generator: it yields an effect and is sent what came of it. It does no I/O, so that
one program serves the blocking and the asynchronous client. Two shells drive them: `Client` and
`AsyncClient`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send one request, and wait for its answer for so many nanoseconds. Follow no redirect."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None
    within: int


@dataclass(frozen=True)
class Sleep:
    """Wait for so many nanoseconds."""

    ns: int


@dataclass(frozen=True)
class Answer:
    """What was answered, whole. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Lost:
    """No whole answer came. Unless heard, there was no connection for the request."""

    cause: str
    heard: bool = True


Effect: TypeAlias = Send | Sleep
Heard: TypeAlias = Answer | Lost | None
Program: TypeAlias = Generator[Effect, Any, T]

_SYSTEM = random.SystemRandom()  # children of a fork must not draw the same jitter


@dataclass(frozen=True)
class Surroundings:
    """The clocks and the chance that programs read. Tests replace them."""

    now: Callable[[], int] = time.monotonic_ns
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    rand: Callable[[], int] = lambda: _SYSTEM.getrandbits(64)
