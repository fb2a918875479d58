"""One request and what its answer says. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from . import wire
from ._effects import Answer
from .backoff import MS, Outcome, hint
from .codes import MEANINGS, code_of
from .errors import Internal, PlimsollError, Refusal, Unreachable, error_of

MAX_BODY = 16 << 20
"""The longest answer that is read, in bytes; the longest list is far below."""

_FARTHEST_MS = 365 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Call:
    """One request, at whichever address."""

    method: str
    path: str  # escaped, below the address
    query: Mapping[str, str | int] | None = None
    body: Mapping[str, Any] | None = None
    held: int = 0  # nanoseconds for which the server may hold it
    repeatable: bool = False  # to ask twice is to ask once
    within: int | None = None  # nanoseconds for an answer, where there is less time than usual


def by_key(key: str) -> str:
    """Return the path of an admission by its key."""
    return "/v1/admissions/" + quote(key, safe="")


def by_id(id_: str) -> str:
    """Return the path of an admission by the server's name for it."""
    return "/v1/admissions/id/" + quote(id_, safe="")


def url_of(base: str, call: Call) -> str:
    """Return where a call goes at an address."""
    return base + call.path + ("?" + urlencode(call.query) if call.query else "")


def parse_address(address: str) -> str:
    """Check an address and return it without what does not belong there."""
    try:
        parts = urlsplit(address.strip())
        port_is_a_number = parts.port is None or parts.port >= 0
    except ValueError:
        port_is_a_number = False
    if not port_is_a_number or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"the server's address {address!r} must begin with http:// or https:// and name a host"
        )
    if "@" in parts.netloc:
        raise ValueError("the server's address must not hold a name and a password: the token says who asks")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def check_token(token: str) -> str:
    """Check that a token can stand in a header. The error does not repeat it."""
    if any(not "!" <= c <= "~" for c in token):
        raise ValueError("the token holds blanks or characters that cannot stand in a header")
    return token


def read(call: Call, answer: Answer, wall: datetime) -> Any:
    """Return the JSON of a yes; raise the error of a no."""
    if len(answer.body) > MAX_BODY:
        raise fault(f"{call.method} {call.path}: the answer is longer than {MAX_BODY} bytes")
    if answer.status >= 300:
        raise error_of(refusal_of(answer, wall))
    if not is_json(answer.headers):
        raise fault(f"{call.method} {call.path}: the answer is not JSON: is this a Plimsoll server?")
    try:
        return json.loads(answer.body)
    except ValueError as err:
        raise fault(f"{call.method} {call.path}: read the answer: {err}") from None


def fault(detail: str) -> Internal:
    """Return the error of an answer that is none of a Plimsoll server."""
    return Internal(Refusal(code="internal", detail=detail, ours=False))


def refusal_of(answer: Answer, wall: datetime) -> Refusal:
    """Read a no. `wall` judges a Retry-After that is a date."""
    said = _problem(answer)
    if said is None:  # not ours: a proxy in between, or another server
        detail = f"the answer was {answer.status} and no problem document"
        said = Refusal(code=code_of(answer.status), detail=detail, ours=False)
    elif said.code not in MEANINGS:  # a newer server's: its status says what to make of it
        detail = ": ".join(part for part in (said.code, said.detail) if part)
        said = replace(said, code=code_of(answer.status), detail=detail)
    if said.retry_after_ms == 0:
        ns = hint(Outcome(retry_after=answer.headers.get("retry-after", "")), wall)
        said = replace(said, retry_after_ms=-(-ns // MS))
    return said


def _problem(answer: Answer) -> Refusal | None:
    """Read a problem document; None where there is none of ours."""
    if not is_json(answer.headers):
        return None
    try:
        p = json.loads(answer.body)
        if not isinstance(p, dict):
            return None
        if not (code := _text(p, "code")):
            return None
        return Refusal(
            code=code,
            scope=_text(p, "scope"),
            detail="\n".join(line for line in (_text(p, "detail"), *_faults(p)) if line),
            remedy=_text(p, "remedy"),
            decision_id=_text(p, "decision_id"),
            retry_after_ms=min(max(_whole(p, "retry_after_ms"), 0), _FARTHEST_MS),
            receipt=_text(p, "receipt"),
            reason=_text(p, "reason"),
            figures=wire.decode(wire.Figures, p),
        )
    except ValueError:
        return None


def _text(p: Mapping[str, Any], name: str) -> str:
    value = p.get(name)
    if value is not None and not isinstance(value, str):
        raise wire.MalformedError(name)
    return value or ""


def _whole(p: Mapping[str, Any], name: str) -> int:
    value = p.get(name)
    if value is not None and type(value) is not int:
        raise wire.MalformedError(name)
    return value or 0


def _faults(p: Mapping[str, Any]) -> list[str]:
    """Write each fault of a document on a line of its own."""
    lines = []
    for one in p.get("errors") or []:
        line = f"line {one['line']}" if one.get("line") else ""
        lines.append(": ".join(part for part in (line, _text(one, "path"), _text(one, "message")) if part))
    return lines


def is_json(headers: Mapping[str, str]) -> bool:
    """Say whether an answer says that it is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("application/json", "application/problem+json")


def answered(err: PlimsollError) -> bool:
    """Say that the gate itself said no."""
    return err.refusal.ours and not unanswered(err)


def unanswered(err: PlimsollError) -> bool:
    """Say that nobody knows what became of a call: another replica, or a later moment, may."""
    return isinstance(err, Unreachable) or err.code == "unavailable"
