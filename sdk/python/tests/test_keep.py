"""How an admission is kept, and how its end is told, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from play import Play, in_turn, no, yes

from plimsoll import Admission, LeaseLost, Never
from plimsoll._effects import Answer, Lost
from plimsoll._keep import Keeper
from plimsoll.wire import decode


def admission(**more: Any) -> Admission:
    return decode(Admission, json.loads(yes(**more).body))


def keep(play: Play, **more: Any) -> LeaseLost | None:
    return play.run(Keeper(play.core, admission(**more), play.now).keep())


def test_a_heartbeat_each_heartbeat_ms_by_id() -> None:
    play = Play(in_turn(*[yes()] * 5, yes(state="evicted", reason="reclaimed")))
    lost = keep(play)
    assert lost is not None
    assert "it is evicted: reclaimed" in str(lost)
    assert {s.what for s in play.sent} == {"POST /v1/admissions/id/adm-1/heartbeat"}
    assert [round(s.at) for s in play.sent] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("end", [no("not_found", 404), no("forbidden", 403)])
def test_told_that_it_is_over(end: Answer) -> None:
    play = Play(lambda _: end)
    assert keep(play) is not None
    assert play.seconds < 1.1


def test_silence_is_borne_until_the_lease_ends() -> None:
    play = Play(lambda _: Lost("connection reset"))
    lost = keep(play)
    assert lost is not None
    assert "its time passed unheard" in str(lost)
    assert play.seconds == pytest.approx(3, abs=0.01)
    assert len(play.sent) > 3


def test_a_fault_in_between_loses_nothing() -> None:
    play = Play(
        in_turn(Lost("reset"), Answer(502, {}, b""), no("internal", 500), yes(), no("not_found", 404))
    )
    assert keep(play) is not None
    heartbeats = [s.at for s in play.sent if s.what.endswith("/heartbeat")]
    assert len(heartbeats) == 5
    assert heartbeats[3] < 3
    assert heartbeats[4] == pytest.approx(heartbeats[3] + 1, abs=0.01)


def test_what_its_host_answers_for_is_looked_at_now_and_then_and_never_lapses() -> None:
    play = Play(lambda s: Lost("reset") if s.at < 600 else no("forbidden", 403))
    lost = keep(play, heartbeat_ms=0, state="running", host="h-1", audience=None)
    assert lost is not None
    assert play.seconds > 600
    assert len(play.sent) < 100


def test_a_sandbox_that_ended_by_itself_is_not_lost() -> None:
    ended = yes(state="released", host="h-1", started_at="2026-09-08T12:00:01Z")
    play = Play(lambda s: ended if s.what.startswith("GET") else no("not_found", 404))
    assert keep(play, host="h-1", audience=None) is None


def test_placed_anew_is_lost() -> None:
    play = Play(lambda _: yes(epoch=8))
    lost = keep(play)
    assert lost is not None
    assert "epoch 8" in str(lost)


def test_release_waits_for_a_host_and_is_told_twice() -> None:
    going = yes(state="releasing")
    play = Play(in_turn(Lost("reset"), going, going, yes(state="released"), no("not_found", 404)))
    gone = play.run(play.core.release_admission(admission()))
    assert gone.state == "released"
    assert play.sent[0].what == "DELETE /v1/admissions/id/adm-1?epoch=7"
    assert play.sent[2].what == "GET /v1/admissions/id/adm-1"
    with pytest.raises(Never, match="not_found"):
        play.run(play.core.release_admission(admission()))


def test_release_gives_up_after_its_persistence() -> None:
    play = Play(lambda _: Lost("reset"))
    with pytest.raises(Exception, match="no answer"):
        play.run(play.core.release_key("k"))
    assert 5 < play.seconds <= 10.01


def test_a_redemption_that_is_refused_is_not_asked_again() -> None:
    play = Play(in_turn(Lost("reset"), no("ticket_rejected", 403, reason="replayed")))
    with pytest.raises(Never, match="ticket rejected: replayed"):
        play.run(play.core.redeem("plm1.secret", "web-1"))
    assert [s.body["instance"] for s in play.sent] == ["web-1", "web-1"]
