"""Tickets are judged as ticket/testdata/vectors.json says, for every library alike."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from vectors import load, named

from plimsoll import TicketRejected
from plimsoll.ticket import AudienceKeys, Expect, inspect

V = load("ticket/testdata/vectors.json")


def keys_file() -> dict[str, Any]:
    keys = [
        {
            "id": k["id"],
            "state": k["state"],
            "secret": base64.b64encode(bytes.fromhex(k["secret_hex"])).decode(),
        }
        for k in V["audience_keys"]
    ]
    return {"version": 1, "audience": V["audience"], "keys": keys}


KEYS = AudienceKeys.parse(keys_file())


def millis(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize("case", V["valid"], ids=named)
def test_valid(case: Any) -> None:
    got = KEYS.verify(case["text"])
    want = case["claims"]
    said = {name.rstrip("_"): getattr(got, name) for name in got.__dataclass_fields__}
    said |= {"version": 1, "issued_ms": millis(said.pop("issued")), "expires_ms": millis(said.pop("expires"))}
    assert said == want


@pytest.mark.parametrize("case", V["invalid"], ids=named)
def test_invalid(case: Any) -> None:
    expect = Expect(key=case.get("expect_key"), epoch=case.get("expect_epoch"), now=at(case.get("now_ms")))
    with pytest.raises(TicketRejected) as told:
        KEYS.verify(case["text"], expect)
    assert told.value.reason == case["reason"]
    mac = case["text"][-43:]
    assert not mac or mac not in str(told.value)


def test_expiry_is_judged_with_a_skew_of_30_s() -> None:
    text, expires = V["valid"][0]["text"], V["valid"][0]["claims"]["expires_ms"]
    assert KEYS.verify(text, Expect(now=at(expires + 29_999)))
    with pytest.raises(TicketRejected, match="expired"):
        KEYS.verify(text, Expect(now=at(expires + 30_000)))


def test_no_other_text_passes() -> None:
    """Each change of one character of a ticket is refused: the encoding is canonical."""
    text = V["valid"][0]["text"]
    for i in range(len(text)):
        for c in ("A", "Q", "=", "\n", "é"):
            changed = text[:i] + c + text[i + 1 :]
            if changed == text:
                continue
            with pytest.raises(TicketRejected):
                KEYS.verify(changed)
        with pytest.raises(TicketRejected):
            KEYS.verify(text[:i])


def test_inspect_proves_nothing() -> None:
    other = next(c for c in V["invalid"] if c["reason"] == "other_host")
    said = inspect(other["text"])
    assert said is not None
    assert said.audience == "host-2"
    assert inspect("plm1.made-up") is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"audience": ""},
        {"audience": 7},
        {"keys": []},
        {"roots": []},
        {"keys": [{"id": "a b", "state": "signing", "secret": base64.b64encode(bytes(range(32))).decode()}]},
        {"keys": [{"id": "a", "state": "open", "secret": base64.b64encode(bytes(range(32))).decode()}]},
        {"keys": [{"id": "a", "state": "signing", "secret": base64.b64encode(bytes(31)).decode()}]},
        {"keys": [{"id": "a", "state": "signing", "secret": base64.b64encode(b"x" * 32).decode()}]},
        {"keys": [{"id": "a", "state": "signing", "secret": "not base64!"}]},
        {"keys": keys_file()["keys"][:1] * 2},
        {"keys": [{**k, "state": "signing"} for k in keys_file()["keys"]]},
    ],
)
def test_keys_files_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as told:
        AudienceKeys.parse(keys_file() | change)
    for key in keys_file()["keys"]:
        assert key["secret"] not in str(told.value)
    assert repr(KEYS) == "AudienceKeys('host-1', ['1970-01', '2026-09'])"
