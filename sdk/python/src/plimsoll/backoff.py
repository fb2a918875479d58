"""When a refused caller asks again, and when it stops: the pure part of waiting.

Nothing here sleeps, sends, or reads a clock. Times are integers of nanoseconds, and random numbers
are integers below 2**64 that the caller draws, so that every SDK computes the same to the bit
(`sdk/vectors`).

    window = min(cap, base * 2**attempt), shortened to what the patience leaves
    delay  = hint + a random part of the window; without a hint the random part alone (full jitter)

Worked: third refusal, hint 2 s: the window is 0.25 s * 2**2 = 1 s, so the delay is from 2 to 3 s.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import UTC, datetime

MS = 1_000_000
SECOND = 1_000_000_000

FARTHEST = 24 * 3600 * SECOND
"""The longest hint that is told from another; all beyond are out of any patience."""


@dataclass(frozen=True)
class Policy:
    """How patient a caller is, in nanoseconds: the first window, the widest, and the whole."""

    base: int = SECOND // 4
    cap: int = 8 * SECOND
    deadline: int = 90 * SECOND


@dataclass(frozen=True)
class Outcome:
    """How a try ended: status 0 is a connection that was lost or never made."""

    status: int = 0
    retry_ms: int = 0
    retry_after: str = ""


class Verdict(enum.Enum):
    """What to do after a try."""

    RETRY = "retry"
    STOP = "stop"
    OUT_OF_PATIENCE = "out_of_patience"


def retryable(status: int) -> bool:
    """Say whether a status is a tempo. A 4xx is the caller's to change, 429 too."""
    return status in (0, 502, 503, 504)


class Backoff:
    """One request's tries so far. Not safe for concurrent use."""

    def __init__(self, policy: Policy, now: int) -> None:
        self._policy = policy
        self._start = now
        self.attempts = 0

    def next(
        self, now: int, outcome: Outcome, rand: int, wall: datetime | None = None
    ) -> tuple[int, Verdict]:
        """Take the outcome of a try that ended at `now`; return how long to wait, and the verdict.

        `wall` is the time of day, by which a Retry-After that is a date is judged.
        """
        if not retryable(outcome.status):
            return 0, Verdict.STOP
        left = self._policy.deadline - (now - self._start)
        wait = hint(outcome, wall)
        if left <= 0 or wait >= left or self._crowds(left - wait):
            return 0, Verdict.OUT_OF_PATIENCE
        window = min(self._window(), left - wait)
        self.attempts += 1
        return wait + part(window, rand), Verdict.RETRY

    def _crowds(self, left: int) -> bool:
        """Say that so little patience is left that ever more tries would fall into its last moments."""
        return self.attempts > 0 and left < self._policy.base

    def _window(self) -> int:
        if self.attempts > 62:
            return self._policy.cap
        return min(self._policy.base << self.attempts, self._policy.cap)


def part(window: int, rand: int) -> int:
    """Return a random part of a window, from nothing up to all of it."""
    return ((window + 1) * rand) >> 64


def away(poll_after: int, left: int, hold: int) -> int:
    """Return how long a waiter leaves its place alone before it holds on for its turn.

    That is until the server wants it back, but not into the last hold of its patience.
    """
    return max(min(poll_after, left - hold), 0)


def hint(outcome: Outcome, wall: datetime | None = None) -> int:
    """Return how long the server asked to wait, 0 for not at all.

    retry_after_ms goes before Retry-After in seconds, and that before one that is a date. What lies
    in the past or cannot be read is none.
    """
    if outcome.retry_ms > 0:
        return min(outcome.retry_ms * MS, FARTHEST)
    text = outcome.retry_after.strip(" \t")
    if not text:
        return 0
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        return FARTHEST if len(digits) > 6 else min(int(text) * SECOND, FARTHEST)
    at = _date(text)
    if at is None:
        return 0
    delta = at - (wall or datetime.now(UTC))
    return min(max((delta.days * 86400 + delta.seconds) * SECOND + delta.microseconds * 1000, 0), FARTHEST)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_SHORT = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_SHORT}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_CLOCK} GMT",
        rf"{_LONG}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_CLOCK} GMT",
        rf"{_SHORT} {_MONTH} (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)


def _date(text: str) -> datetime | None:
    """Read the three forms of an HTTP date (RFC 9110, 5.6.7), whatever the locale."""
    for form in _FORMS:
        if (found := form.fullmatch(text)) is None:
            continue
        year, month = int(found["year"]), _MONTHS.index(found["month"]) + 1
        if len(found["year"]) == 2:  # 69 to 99 were in the last century
            year += 1900 if year >= 69 else 2000
        hour, minute, second = (int(found[part]) for part in ("hour", "minute", "second"))
        try:
            return datetime(year, month, int(found["day"]), hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None
    return None


class Budget:
    """How many retries a client may still send to a gate that does not answer.

    A retry because nobody answered takes one token. There are 10 at most, one comes back each second,
    and two with each answer of the gate: so a client with a thousand callers sends at most 10 + 1/s
    retries into an outage, and is back at full speed a second after the first answer. It counts in
    thousandths of a token. Not safe for concurrent use.
    """

    MOST = 10_000
    COST = 1_000
    PER_ANSWER = 2_000

    def __init__(self, now_ms: int) -> None:
        self._milli = self.MOST
        self._at = now_ms

    def take(self, now_ms: int) -> bool:
        """Take one token, if there is one."""
        self._refill(now_ms)
        if self._milli < self.COST:
            return False
        self._milli -= self.COST
        return True

    def answered(self, now_ms: int) -> None:
        """Note an answer of the gate: a yes, a place, or a refusal of its own."""
        self._refill(now_ms)
        self._milli = min(self._milli + self.PER_ANSWER, self.MOST)

    def _refill(self, now_ms: int) -> None:
        passed = max(now_ms - self._at, 0)  # a clock that went back brings nothing
        self._milli = min(self._milli + passed, self.MOST)
        self._at += passed


def put_off(rand: int) -> int:
    """Return how long a retry without a token waits before it asks for one again: 0.5 to 1 s."""
    return SECOND // 2 + part(SECOND // 2, rand)
