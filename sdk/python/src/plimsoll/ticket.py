"""Verify tickets, offline, by an audience's keys; ticket/ticket.go says how they are made.

    text   = "plm1." base64url(claims, mac)
    mac    = HMAC-SHA256(key of the audience, claims)
    claims = version(1) str(key id) str(audience) str(consumer) str(key) str(pool) str(class)
             str(tenant) str(admission id) u64(memory bytes) u64(epoch) u64(issued ms) u64(expires ms)
    str(s) = one byte of length, then s; u64 is big-endian

It decides whether a text is a ticket of ours, for this audience. It does not decide whether the boot
may happen: that it was released or redeemed before, only the store knows. It fails closed, compares in
constant time, and no error repeats a ticket or a MAC.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import Refusal, TicketRejected

PREFIX = "plm1."
SKEW_MS = 30_000
"""How far two wall clocks may differ where one judges the expiry."""

_VERSION = 1
_MAC = 32
_MAX_NAME, _MAX_KEY_ID, _MAX_KEYS = 128, 32, 16
_NAMES = ("key_id", "audience", "consumer", "key", "pool", "class_", "tenant", "admission_id")
_NUMBERS = struct.Struct(">QQQQ")
_MAX_RAW = 1 + len(_NAMES) + _MAX_KEY_ID + 7 * _MAX_NAME + _NUMBERS.size + _MAC
_MAX_TEXT = len(PREFIX) + (_MAX_RAW * 8 + 5) // 6
_MAX_MILLIS = 253402300799999  # the last millisecond of the year 9999
_MAX_FILE = 64 << 10
_WORD = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)


@dataclass(frozen=True)
class Claims:
    """What a ticket says. Only what `AudienceKeys.verify` returned is proved."""

    key_id: str
    audience: str
    consumer: str
    key: str
    pool: str
    class_: str
    tenant: str
    admission_id: str
    memory_bytes: int
    epoch: int
    issued: datetime
    expires: datetime


@dataclass(frozen=True)
class Expect:
    """What the verifier knows of the boot at hand; None is not asked for.

    now: judges the expiry. Without it no wall clock does, as on hosts, where the reservation is the expiry.
    """

    consumer: str | None = None
    key: str | None = None
    admission_id: str | None = None
    pool: str | None = None
    class_: str | None = None
    epoch: int | None = None
    now: datetime | None = None


@dataclass(frozen=True)
class _Ticket:
    names: dict[str, bytes]
    memory: int
    epoch: int
    issued: int
    expires: int
    signed: bytes
    mac: bytes = field(repr=False)

    def claims(self) -> Claims:
        names = {name: value.decode("utf-8", "replace") for name, value in self.names.items()}
        return Claims(
            **names,
            memory_bytes=self.memory,
            epoch=self.epoch,
            issued=_time(self.issued),
            expires=_time(self.expires),
        )


def _time(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _parse(text: str) -> _Ticket | None:
    """Read a ticket's text. It accepts exactly what is minted: one set of claims has one text."""
    body = text.removeprefix(PREFIX)
    if body == text or len(text) > _MAX_TEXT or _WORD.fullmatch(body) is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != body or len(raw) <= _MAC:
        return None
    return _claims(raw[:-_MAC], raw[-_MAC:])


def _claims(signed: bytes, mac: bytes) -> _Ticket | None:
    if signed[0] != _VERSION:
        return None
    names, rest = {}, signed[1:]
    for name in _NAMES:
        if not rest or rest[0] > _MAX_NAME or rest[0] > len(rest) - 1:
            return None
        names[name], rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    if len(rest) != _NUMBERS.size or len(names["key_id"]) > _MAX_KEY_ID or not names["admission_id"]:
        return None
    memory, epoch, issued, expires = _NUMBERS.unpack(rest)
    if memory >> 63 or epoch >> 63 or not issued < expires <= _MAX_MILLIS:
        return None
    return _Ticket(names, memory, epoch, issued, expires, signed, mac)


def inspect(text: str) -> Claims | None:
    """Read what a text says of itself; None where it is no ticket's. It proves nothing."""
    ticket = _parse(text)
    return ticket.claims() if ticket else None


class AudienceKeys:
    """The keys of one audience. Whoever holds them can forge tickets for it: they are secret."""

    def __init__(self, audience: str, keys: Mapping[str, bytes]) -> None:
        if not 1 <= len(audience.encode()) <= _MAX_NAME:
            raise ValueError(f"an audience is 1 to {_MAX_NAME} bytes")
        if not 1 <= len(keys) <= _MAX_KEYS:
            raise ValueError(f"1 to {_MAX_KEYS} keys, not {len(keys)}")
        for id_, secret in keys.items():
            _check_key(id_, secret)
        self.audience = audience
        self._keys = dict(keys)

    @classmethod
    def parse(cls, document: str | bytes | Mapping[str, Any]) -> AudienceKeys:
        """Read the file that `plimsoll keyring audience NAME` writes. No error repeats a secret."""
        if not isinstance(document, Mapping):
            if len(document) > _MAX_FILE:
                raise ValueError(f"keys file: at most {_MAX_FILE} bytes")
            document = _document(document)
        if document.keys() != {"version", "audience", "keys"} or document["version"] != 1:
            raise ValueError("keys file: it is an object of version (1), audience and keys, and nothing else")
        audience, listed = document["audience"], document["keys"]
        if not isinstance(audience, str) or not isinstance(listed, list):
            raise ValueError("keys file: audience is a text, and keys is a list")
        keys: dict[str, bytes] = {}
        states = []
        for one in listed:
            id_, state, secret = _key(one)
            if id_ in keys:
                raise ValueError(f"keys file: a second key is named {id_!r}")
            keys[id_] = secret
            states.append(state)
        if states.count("signing") > 1:
            raise ValueError("keys file: two keys are both signing")
        return cls(audience, keys)

    def __repr__(self) -> str:
        return f"AudienceKeys({self.audience!r}, {sorted(self._keys)})"

    @property
    def key_ids(self) -> list[str]:
        """Names the roots whose keys these are."""
        return list(self._keys)

    def verify(self, text: str, expect: Expect | None = None) -> Claims:
        """Return what a ticket claims; raise TicketRejected for anything that is not one for here."""
        ticket, reason = self._judge(text, expect or Expect())
        if ticket is None or reason:
            raise TicketRejected(
                Refusal(code="ticket_rejected", reason=reason, detail=self._detail(reason, text))
            )
        return ticket.claims()

    def _judge(self, text: str, expect: Expect) -> tuple[_Ticket | None, str]:
        """Go from the text to the MAC to the claims.

        The audience is compared before the MAC, because the key of another audience is not held here: it
        can only refuse.
        """
        if not text:
            return None, "missing"
        ticket = _parse(text)
        if ticket is None:
            return None, "malformed"
        if ticket.names["audience"] != self.audience.encode():
            return None, "other_host"
        secret = self._keys.get(ticket.names["key_id"].decode("ascii", "replace"))
        if secret is None or not hmac.compare_digest(_sign(secret, ticket.signed), ticket.mac):
            return None, "forged"
        return ticket, _compare(ticket, expect)

    def _detail(self, reason: str, text: str) -> str:
        """Say what a refused ticket said of itself, for whoever looks into it."""
        said = inspect(text)
        if said is None:
            return ""
        return {
            "forged": f"it names key {said.key_id!r}; here are {', '.join(self._keys)}",
            "other_host": f"it is for {said.audience!r}; this is {self.audience!r}",
            "expired": f"it expired at {said.expires.isoformat()}",
        }.get(reason, "")


def _sign(secret: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, signed, hashlib.sha256).digest()


def _compare(ticket: _Ticket, expect: Expect) -> str:
    for name in ("consumer", "key", "admission_id", "pool", "class_"):
        wanted: str | None = getattr(expect, name)
        if wanted is not None and ticket.names[name] != wanted.encode():
            return "other_key"
    if expect.epoch is not None and ticket.epoch != expect.epoch:
        return "superseded"
    if expect.now is not None and expect.now >= _time(ticket.expires) + timedelta(milliseconds=SKEW_MS):
        return "expired"
    return ""


def _document(text: str | bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError("keys file: it is not JSON") from None
    if not isinstance(found, Mapping):
        raise ValueError("keys file: it is not an object")
    return found


def _key(one: Any) -> tuple[str, str, bytes]:
    if not isinstance(one, Mapping) or one.keys() != {"id", "state", "secret"}:
        raise ValueError("keys file: a key is an object of id, state and secret, and nothing else")
    id_, state, secret = one["id"], one["state"], one["secret"]
    if not isinstance(id_, str) or not isinstance(secret, str):
        raise ValueError("keys file: id and secret of a key are texts")
    if state not in ("signing", "verify-only"):
        raise ValueError(f"keys file: the state of key {id_!r} is neither signing nor verify-only")
    try:
        return id_, state, base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"keys file: the secret of key {id_!r} is not base64") from None


def _check_key(id_: str, secret: bytes) -> None:
    if _KEY_ID.fullmatch(id_) is None:
        raise ValueError(f"key id {id_!r} is not 1 to 32 of A-Z a-z 0-9 . _ -")
    if len(secret) != 32 or secret == secret[:1] * len(secret):
        raise ValueError(f"the secret of key {id_!r} is not 32 bytes of chance")
