"""The codes of a no, as api/codes.go has them: what each says, and with which status it is sent."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """What a caller should make of a no."""

    NOT_NOW = "not_now"
    """A tempo: wait and ask again. Never write it to a status column."""
    NOT_ALLOWED = "not_allowed"
    """A rule that this caller runs into."""
    NEVER = "never"
    """A fault in the request, or something that will not change by waiting."""
    INTERNAL = "internal"
    """A fault of the server, or an answer that is none of its."""


@dataclass(frozen=True)
class Meaning:
    """One row of the table of codes."""

    status: int
    kind: Kind
    scope: str


def _rows(status: int, kind: Kind, **codes: str) -> dict[str, Meaning]:
    return {code: Meaning(status, kind, scope) for code, scope in codes.items()}


MEANINGS: dict[str, Meaning] = {
    **_rows(202, Kind.NOT_NOW, waiting_capacity="pool"),
    **_rows(503, Kind.NOT_NOW, no_capacity="fleet", pool_full="pool", queue_full="pool"),
    **_rows(503, Kind.NOT_NOW, host_starts_saturated="host", host_pressure="host", host_draining="host"),
    **_rows(503, Kind.NOT_NOW, host_silent="host", reservation_lapsed="host", releasing="request"),
    **_rows(503, Kind.NOT_NOW, unavailable="fleet", no_healthy_agents="fleet", queue_timeout="pool"),
    **_rows(401, Kind.NOT_ALLOWED, unauthenticated="request"),
    **_rows(403, Kind.NOT_ALLOWED, tenant_over_quota="tenant", forbidden="request"),
    **_rows(403, Kind.NOT_ALLOWED, join_rejected="request", host_buried="host"),
    **_rows(400, Kind.NEVER, invalid_request="request"),
    **_rows(403, Kind.NEVER, ticket_rejected="request"),
    **_rows(404, Kind.NEVER, not_found="request", unknown_class="request"),
    **_rows(405, Kind.NEVER, method_not_allowed="request"),
    **_rows(409, Kind.NEVER, generation_conflict="request", over_ceiling="fleet", host_state="host"),
    **_rows(409, Kind.NEVER, mode_of_all="request"),
    **_rows(413, Kind.NEVER, body_too_large="request"),
    **_rows(422, Kind.NEVER, key_conflict="request", infeasible="fleet", too_large="request"),
    **_rows(422, Kind.NEVER, invalid_config="request"),
    **_rows(500, Kind.INTERNAL, internal="fleet"),
}

_BY_STATUS = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    429: "forbidden",  # a rule of some proxy; it never means capacity
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}


def code_of(status: int) -> str:
    """Return the nearest code to a status that came without one that is known here."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "invalid_request" if status // 100 == 4 else "internal"
