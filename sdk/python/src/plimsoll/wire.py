"""What goes over the wire, under the names of api/openapi.yaml.

Amounts keep the unit in their name (`_ms`, `_mb`). What a newer server says beyond these fields is
dropped; what it leaves out is None.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True)
class ShareStanding:
    """A part of a pool: the slots that are reserved for it are never lent."""

    reserved: int
    held: int
    consumer: str | None = None
    priority: int | None = None
    max: int | None = None


@dataclass(frozen=True)
class PoolOverride:
    """What an operator set of a pool for a while. A cap of 0 holds it."""

    cap: int
    since: datetime
    by: str
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """A place in the queue."""

    code: str
    id: str
    key: str
    state: str
    waiting_for: str
    queued_for_ms: int
    poll_after_ms: int
    retry_after_ms: int
    position: int | None = None
    pool: str | None = None
    pool_busy: int | None = None
    cap: int | None = None
    limit: int | None = None
    use: int | None = None
    share: ShareStanding | None = None
    receipt: str | None = field(default=None, repr=False)
    decision_id: str | None = None


@dataclass(frozen=True)
class Admission:
    """One execution's passage. The ticket is a secret: it is not in the repr."""

    id: str
    key: str
    consumer: str
    state: str
    epoch: int
    created_at: datetime
    class_: str
    tenant: str | None = None
    template: str | None = None
    pool: str | None = None
    host: str | None = None
    audience: str | None = None
    instance: str | None = None
    live_until: datetime | None = None
    endpoint: str | None = None
    ticket: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    heartbeat_ms: int | None = None
    memory_mb: int | None = None
    charge_mb: int | None = None
    cpu: float | None = None
    mode: str | None = None
    enforcement: str | None = None
    would_refuse: list[str] | None = None
    stateful: bool | None = None
    labels: dict[str, str] | None = None
    decision_id: str | None = None
    waiting: Waiting | None = None
    reason: str | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def alive(self) -> bool:
        """Say whether slot and memory are this admission's to use."""
        return self.state in ("admitted", "running")


@dataclass(frozen=True)
class Redemption:
    """What a ticket admits, by the store's word."""

    id: str
    epoch: int
    consumer: str
    key: str
    pool: str
    class_: str
    tenant: str
    audience: str
    state: str
    memory_mb: int
    expires_at: datetime
    live_for_ms: int
    heartbeat_ms: int
    template: str | None = None
    instance: str | None = None
    cpu: float | None = None


@dataclass(frozen=True)
class Figures:
    """Where a caller stands: the numbers behind a no."""

    waiting_for: str | None = None
    pool: str | None = None
    pool_busy: int | None = None
    cap: int | None = None
    position: int | None = None
    queued_for_ms: int | None = None
    timed_out: bool | None = None
    limit: int | None = None
    use: int | None = None
    share: ShareStanding | None = None
    override: PoolOverride | None = None
    elsewhere_fits: bool | None = None
    tally: dict[str, int] | None = None
    hosts: dict[str, list[str]] | None = None


@dataclass(frozen=True)
class DecisionAsk:
    """What was asked for, as its class completed it."""

    memory_mb: int
    stateful: bool
    need_mb: int | None = None
    cpu: float | None = None
    template: str | None = None
    labels: dict[str, str] | None = None
    mode: str | None = None
    host: dict[str, str] | None = None


@dataclass(frozen=True)
class DecisionExclusion:
    """Hosts that one reason left out."""

    reason: str
    count: int
    hosts: list[str]


@dataclass(frozen=True)
class Change:
    """One change that, alone, would have admitted the request, if nothing else moves meanwhile."""

    kind: str
    who: str
    why: str
    target: str | None = None
    from_: int | None = None
    to: int | None = None
    command: str | None = None
    patch: str | None = None


@dataclass(frozen=True)
class DecisionTold:
    """What the caller was told."""

    status: int
    retry_after_ms: int | None = None
    retry_at: datetime | None = None
    position: int | None = None
    waiting_for: str | None = None


@dataclass(frozen=True)
class DecisionEvent:
    """Something that happened to the key since."""

    at: datetime
    what: str
    decision_id: str | None = None
    outcome: str | None = None
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Decision:
    """One answer of the gate, and what it rests on."""

    id: str
    at: datetime
    replica: str
    outcome: str
    line: str
    told: DecisionTold
    consumer: str | None = None
    key: str | None = None
    class_: str | None = None
    pool: str | None = None
    tenant: str | None = None
    ask: DecisionAsk | None = None
    code: str | None = None
    scope: str | None = None
    detail: str | None = None
    excluded: list[DecisionExclusion] | None = None
    nearest: str | None = None
    changes: list[Change] | None = None
    admission_id: str | None = None
    epoch: int | None = None
    host: str | None = None
    first_refused_at: datetime | None = None
    attempts: int | None = None
    to_success_ms: int | None = None
    since: list[DecisionEvent] | None = None


@dataclass(frozen=True)
class DecisionList:
    """Decisions, the newest first."""

    decisions: list[Decision]


class MalformedError(ValueError):
    """An answer is not of the shape that the contract has."""


def decode(kind: type[T], value: object) -> T:
    """Read one of the types above from decoded JSON."""
    if not isinstance(value, Mapping):
        raise MalformedError(f"{kind.__name__}: not an object")
    found: dict[str, Any] = {}
    for name, hint, required in _shape(cast(Any, kind)):
        given = value.get(name.rstrip("_"))
        if given is not None:
            found[name] = _read(f"{kind.__name__}.{name}", hint, given)
        elif required:
            raise MalformedError(f"{kind.__name__}.{name} is missing")
    return kind(**found)


@functools.cache
def _shape(kind: Any) -> list[tuple[str, Any, bool]]:
    hints = typing.get_type_hints(kind)
    return [
        (f.name, _plain(hints[f.name]), f.default is dataclasses.MISSING) for f in dataclasses.fields(kind)
    ]


def _plain(hint: Any) -> Any:
    """Drop `| None`."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def _read(where: str, hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value)
    if hint is datetime:
        return _time(where, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    outer = typing.get_origin(hint) or hint
    if not isinstance(value, outer) or (isinstance(value, bool) and outer is not bool):
        raise MalformedError(f"{where} is {type(value).__name__}, not {outer.__name__}")
    inner = typing.get_args(hint)
    if outer is list:
        return [_read(where, inner[0], one) for one in value]
    if outer is dict:
        return {name: _read(where, inner[1], one) for name, one in value.items()}
    return value


def _time(where: str, value: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        raise MalformedError(f"{where} is not a time") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
