"""A shell in virtual time: drives programs against a script, with no clock and no socket."""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from plimsoll import Pace
from plimsoll._core import Core
from plimsoll._effects import Answer, Lost, Program, Send, Surroundings

T = TypeVar("T")
SECOND = 1_000_000_000
NOON = datetime(2026, 9, 8, 12, tzinfo=UTC)


@dataclass
class Sent:
    """One request, and when it was sent."""

    at: float
    address: str
    what: str
    body: dict[str, Any]


@dataclass
class Play:
    """The gate is a function of what is sent; it takes `took` seconds to answer."""

    gate: Callable[[Sent], Answer | Lost]
    took: float = 0.001
    addresses: str = "http://a"
    seed: int = 8
    now: int = 5 * SECOND
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = self.now
        self._chance = random.Random(self.seed)  # noqa: S311 - the same each time
        around = Surroundings(
            now=lambda: self.now,
            wall=lambda: NOON + timedelta(microseconds=(self.now - self._start) // 1000),
            rand=lambda: self._chance.getrandbits(64),
        )
        self.core = Core(self.addresses, "a-secret-token", Pace(), "test", around)

    @property
    def seconds(self) -> float:
        """Return how much time has passed."""
        return (self.now - self._start) / SECOND

    def run(self, program: Program[T]) -> T:
        """Run one program to its end."""
        return self.run_all([program])[0]

    def run_all(self, programs: list[Program[T]]) -> list[T]:
        """Run programs side by side; an error of one is raised."""
        order = itertools.count()
        due: list[tuple[int, int, int, Any]] = [
            (self.now, next(order), i, None) for i in range(len(programs))
        ]
        done: dict[int, T] = {}
        while due:
            self.now, _, i, heard = heapq.heappop(due)
            try:
                effect = programs[i].send(heard)
            except StopIteration as end:
                done[i] = end.value
                continue
            wait, heard = (self._send(effect)) if isinstance(effect, Send) else (effect.ns, None)
            heapq.heappush(due, (self.now + wait, next(order), i, heard))
        return [done[i] for i in range(len(programs))]

    def _send(self, send: Send) -> tuple[int, Answer | Lost]:
        url = urlsplit(send.url)
        what = f"{send.method} {url.path}" + (f"?{url.query}" if url.query else "")
        self.sent.append(Sent(self.seconds, url.netloc, what, json.loads(send.body) if send.body else {}))
        return int(self.took * SECOND), self.gate(self.sent[-1])


def yes(**more: Any) -> Answer:
    """Answer with an admission."""
    admission = {
        "id": "adm-1",
        "key": "k",
        "consumer": "ci",
        "class": "build",
        "state": "admitted",
        "epoch": 7,
    }
    life = {"created_at": "2026-09-08T12:00:00Z", "heartbeat_ms": 1000, "audience": "cloud"}
    return reply(201, admission | life | more)


def place(**more: Any) -> Answer:
    """Answer with a place in the queue."""
    waiting = {"code": "waiting_capacity", "id": "adm-1", "key": "k", "state": "waiting_capacity"}
    figures = {
        "waiting_for": "slot",
        "queued_for_ms": 1,
        "poll_after_ms": 0,
        "retry_after_ms": 60_000,
        "position": 4,
    }
    return reply(202, waiting | figures | more)


def no(code: str, status: int = 503, **more: Any) -> Answer:
    """Answer with a problem document."""
    return reply(status, {"code": code, "status": status} | more, "application/problem+json")


def reply(status: int, body: Any, kind: str = "application/json") -> Answer:
    """Answer with JSON."""
    return Answer(status, {"content-type": kind}, json.dumps(body).encode())


def in_turn(*answers: Answer | Lost) -> Callable[[Sent], Answer | Lost]:
    """Answer with each in turn, and with the last for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
