"""Each answer becomes the error that it is in every SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from play import Play, yes
from vectors import ROOT, cases, named

from plimsoll import Internal, Never, NotAllowed, NotNow, PlimsollError, Unreachable
from plimsoll._calls import unanswered
from plimsoll._effects import Answer, Lost
from plimsoll._seek import Seeker
from plimsoll.codes import MEANINGS
from plimsoll.options import split


def answer_of(case: Any) -> Answer | Lost:
    if case["status"] == 0:
        return Lost("reset")
    headers = {name.lower(): value for name, value in case["headers"].items()}
    return Answer(case["status"], headers, case["body"].encode())


def kind_of(err: PlimsollError) -> str:
    for kind, name in (
        (Unreachable, "unreachable"),
        (NotNow, "not_now"),
        (NotAllowed, "not_allowed"),
        (Never, "never"),
    ):
        if isinstance(err, kind):
            return name
    assert isinstance(err, Internal)
    return "internal"


def admit(play: Play, deadline: float) -> PlimsollError:
    ask, patience = split("build", {"deadline": deadline})
    with pytest.raises(PlimsollError) as told:
        play.run(Seeker(play.core, ask, None, patience).seek())
    return told.value


@pytest.mark.parametrize("case", cases("errors"), ids=named)
def test_error(case: Any) -> None:
    play = Play(lambda _: answer_of(case), took=0)
    while play.core._take():
        pass
    err = admit(play, 0)
    assert play.core._take() == case["answered"]
    got = {
        "kind": kind_of(err),
        "code": err.code if err.refusal.ours or case["code"] else "",
        "retry_after_ms": err.refusal.retry_after_ms,
        "reason": err.refusal.reason,
        "remedy": err.remedy,
        "decision_id": err.decision_id,
        "receipt": err.receipt,
    }
    assert got == {name: case.get(name, "") for name in got}
    if case["scope"]:
        assert err.scope == case["scope"]
    if case["detail"]:
        assert err.detail == case["detail"]


@pytest.mark.parametrize("case", cases("errors"), ids=named)
def test_what_is_asked_again(case: Any) -> None:
    answers = [answer_of(case)]
    play = Play(lambda _: answers.pop() if answers else yes())
    ask, patience = split("build", {"deadline": 3600})
    asked: list[NotNow] = []
    program = Seeker(
        play.core, ask, None, replace(patience, on_retry=lambda err, _: asked.append(err))
    ).seek()
    if case["retried"]:
        play.run(program)
        assert [unanswered(err) for err in asked] == [case["needs_token"]]
        return
    with pytest.raises(PlimsollError):
        play.run(program)
    assert asked == []


def test_every_code_of_the_contract_is_known() -> None:
    text = (ROOT / "api/codes.go").read_text(encoding="utf-8")
    listed = {line.split('"')[1] for line in text.splitlines() if 'Code = "' in line}
    assert listed
    assert listed == set(MEANINGS)
