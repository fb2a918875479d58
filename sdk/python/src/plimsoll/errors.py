"""A no, as an error: not now, not allowed, never, or internal.

    PlimsollError
      NotNow            a tempo: StillWaiting, QueueTimeout, Unreachable
      NotAllowed        a rule stands against this caller: its token, its role, its quota
      Never             the request must change: TicketRejected is one of these
      Internal          the server's fault, or an answer that is none of its
      LeaseLost         what was held is over, and not by its holder
      NotReleased       what was held could not be given back; it ends by itself

Each can be pickled, and none says a token or a ticket.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .codes import MEANINGS, Kind
from .wire import Admission, Figures, Waiting


@dataclass(frozen=True)
class Refusal:
    """A no, as a value."""

    code: str
    scope: str = ""
    detail: str = ""
    remedy: str = ""
    decision_id: str = ""
    retry_after_ms: int = 0
    receipt: str = field(default="", repr=False)
    reason: str = ""
    figures: Figures = field(default_factory=Figures)
    ours: bool = field(default=True, repr=False)
    """A Plimsoll server said it, and no proxy in between."""

    @property
    def kind(self) -> Kind:
        """What to make of it."""
        return MEANINGS[self.code].kind


class PlimsollError(Exception):
    """Everything that this package raises on purpose, apart from mistakes in its use (ValueError)."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal
        self.key = ""
        """Of `admit`, `resume` and `hold`: the key that was asked for. Ask again with it."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.code, self.detail) if part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def code(self) -> str:
        """The stable, machine-readable name of it; "" where nobody answered."""
        return self.refusal.code

    @property
    def scope(self) -> str:
        """Whose no it is: request, host, pool, tenant or fleet."""
        return self.refusal.scope or (MEANINGS[self.code].scope if self.code in MEANINGS else "")

    @property
    def detail(self) -> str:
        """Which field, which figure; for people."""
        return self.refusal.detail

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.refusal.remedy

    @property
    def decision_id(self) -> str:
        """Names the decision in the server's log, and in `explain`."""
        return self.refusal.decision_id

    @property
    def retry_after(self) -> float | None:
        """The server's appointment for this caller, in seconds from the answer. Come later, not sooner."""
        ms = self.refusal.retry_after_ms
        return ms / 1000 if ms > 0 else None

    @property
    def receipt(self) -> str:
        """Handed back with the next try of the same request, by whoever makes it."""
        return self.refusal.receipt

    @property
    def figures(self) -> Figures:
        """Pool, busy, cap, position, limit, use, hosts: the numbers behind the no."""
        return self.refusal.figures


class NotNow(PlimsollError):
    """Not now: the same request, unchanged, may succeed later. It is a tempo, not a failure.

    Never write it to a status column: park the work as `waiting_capacity`, and ask again with the
    same key. Never run the work outside a sandbox because of it.
    """


class StillWaiting(NotNow):
    """The caller's patience ended before its turn came. Its place in the queue is kept.

    `resume(key)` goes on with it, `release(key)` gives it up. It is a tempo, not a failure: never write
    it to a status column; park the work as `waiting_capacity`. Never run the work outside a sandbox
    because of it.
    """

    def __init__(self, waiting: Waiting) -> None:
        super().__init__(_refusal_of(waiting))
        self.args = (waiting,)
        self.waiting = waiting
        self.key = waiting.key


def _refusal_of(w: Waiting) -> Refusal:
    detail = f"no {w.waiting_for} yet"
    detail += f", position {w.position}" if w.position else ""
    detail += f" in pool {w.pool}" if w.pool else ""
    figures = Figures(
        waiting_for=w.waiting_for,
        pool=w.pool,
        pool_busy=w.pool_busy,
        cap=w.cap,
        position=w.position,
        queued_for_ms=w.queued_for_ms,
        limit=w.limit,
        use=w.use,
        share=w.share,
    )
    return Refusal(
        code="waiting_capacity",
        detail=detail,
        decision_id=w.decision_id or "",
        retry_after_ms=max(w.retry_after_ms, 0),
        receipt=w.receipt or "",
        figures=figures,
    )


class QueueTimeout(NotNow):
    """It waited in the queue as long as its request said (`max_queue_age_ms`), and its place is gone.

    It is final for this call and no failure of the work: post the key again for a new place, and
    until then park the work as `waiting_capacity`. Never write it to a status column.
    """


class Unreachable(NotNow):
    """No replica answered. What was asked for may have been heard: ask again with the same key.

    It is a tempo, not a failure: never write it to a status column, and never run the work outside a
    sandbox because of it.
    """

    def __init__(self, address: str, cause: str, *, heard: bool = True) -> None:
        super().__init__(Refusal(code="", scope="fleet", detail=f"no answer from {address}: {cause}"))
        self.args = (address, cause)
        self.address = address
        self.cause = cause
        self.heard = heard
        """False where there was no connection, so that the request cannot have been taken up."""


class NotAllowed(PlimsollError):
    """A rule stands against this caller: its token, its role, its quota. Waiting does not change it."""


class Never(PlimsollError):
    """The request must change; waiting will not change the answer."""


class TicketRejected(Never):
    """The ticket admits no boot: boot nothing. `reason` says why, and never repeats the ticket."""

    @property
    def reason(self) -> str:
        """missing, malformed, forged, expired, other_host, other_key, superseded, released or replayed."""
        return self.refusal.reason

    def __str__(self) -> str:
        return ": ".join(part for part in ("ticket rejected", self.reason, self.detail) if part)


class Internal(PlimsollError):
    """The server's own fault, or an answer that is none of a Plimsoll server."""


class LeaseLost(PlimsollError):
    """What was held is over, and not by its holder: stop the work, or ask for it anew.

    The server said so (it was released, evicted, or its host died), or nobody could be reached until
    its time had passed.
    """

    def __init__(self, admission: Admission, why: str) -> None:
        super().__init__(Refusal(code="lost", detail=f"{admission.key}: {why}"))
        self.args = (admission, why)
        self.admission = admission


class NotReleased(PlimsollError):
    """What was held could not be given back after the usual persistence, for the reason in `__cause__`.

    Without heartbeats it ends by itself, when its ticket or its slot does.
    """

    def __init__(self, admission: Admission, why: str) -> None:
        super().__init__(Refusal(code="not_released", detail=f"{admission.key}: {why}"))
        self.args = (admission, why)
        self.admission = admission


_BY_KIND: dict[Kind, type[PlimsollError]] = {
    Kind.NOT_NOW: NotNow,
    Kind.NOT_ALLOWED: NotAllowed,
    Kind.NEVER: Never,
    Kind.INTERNAL: Internal,
}


def error_of(refusal: Refusal) -> PlimsollError:
    """Return the error that a refusal becomes at the edge."""
    match refusal.code:
        case "queue_timeout":
            return QueueTimeout(refusal)
        case "ticket_rejected":
            return TicketRejected(refusal)
    return _BY_KIND[refusal.kind](refusal)
