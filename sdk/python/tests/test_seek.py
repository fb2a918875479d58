"""How a caller waits, in virtual time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from play import Play, in_turn, no, place, yes

from plimsoll import Admission, Internal, Never, NotAllowed, NotNow, QueueTimeout, StillWaiting, Unreachable
from plimsoll._calls import Call
from plimsoll._effects import Answer, Lost
from plimsoll._seek import Seeker
from plimsoll.options import split

LOST = Lost("connection reset")
REFUSED = Lost("connection refused", heard=False)


def seeker(play: Play, **options: Any) -> Seeker:
    ask, patience = split("build", options)
    return Seeker(play.core, ask, None, patience)


def resumed(play: Play, **options: Any) -> Seeker:
    return Seeker(play.core, None, "k", split("build", options)[1])


def test_a_refusal_is_asked_again_after_its_appointment_with_the_receipt_and_the_same_key() -> None:
    """T74: a client ignored the hint and failed the customer's step."""
    play = Play(
        in_turn(no("pool_full", retry_after_ms=2000, receipt="r1"), no("pool_full", receipt="r2"), yes())
    )
    told: list[Any] = []
    retries: list[Any] = []
    got = play.run(
        seeker(
            play,
            on_admitted=lambda *a: told.append(a),
            on_retry=lambda err, seconds: retries.append((err.code, seconds)),
        ).seek()
    )
    assert isinstance(got, Admission)
    first, second, third = play.sent
    assert [s.body.get("receipt") for s in play.sent] == [None, "r1", "r2"]
    assert len({s.body["key"] for s in play.sent}) == 1
    assert first.body["key"].startswith("k-")
    assert len(first.body["key"]) == 28
    assert 2.0 < second.at <= 2.0 + 0.25 + 0.001
    assert 0 < third.at - second.at <= 0.5 + 0.001
    assert retries[0][1] == pytest.approx(second.at - 0.001)
    assert [code for code, _ in retries] == ["pool_full", "pool_full"]
    assert told == [(got, 3, pytest.approx(third.at + 0.001 - 0.001, abs=0.002))]


def test_patience_ends_in_not_now_and_the_error_says_the_key() -> None:
    play = Play(lambda _: no("no_capacity", retry_after_ms=400))
    with pytest.raises(NotNow) as told:
        play.run(seeker(play, deadline=10, key="run-7").seek())
    assert told.value.key == "run-7"
    assert told.value.code == "no_capacity"
    assert told.value.retry_after == 0.4
    assert 5 < play.seconds <= 10
    assert all(b.at - a.at >= 0.4 for a, b in pairwise(play.sent))


def test_patience_of_nothing_asks_once() -> None:
    play = Play(lambda _: no("no_capacity"))
    with pytest.raises(NotNow):
        play.run(seeker(play, deadline=0).seek())
    assert len(play.sent) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (no("key_conflict", 422), Never),
        (no("tenant_over_quota", 403, limit=3, use=3), NotAllowed),
        (no("queue_timeout", timed_out=True), QueueTimeout),
        (Answer(429, {"retry-after": "1"}, b"slow down"), NotAllowed),
        (no("of_a_newer_server", 409), Never),
        (no("internal", 500), Internal),
        (Answer(302, {"location": "http://elsewhere"}, b""), Internal),
        (Answer(200, {"content-type": "text/html"}, b"<html>"), Internal),
        (Answer(200, {"content-type": "application/json"}, b"{}"), Internal),
        (Answer(200, {"content-type": "application/json"}, b"["), Internal),
    ],
)
def test_what_is_final_is_asked_once(answer: Answer, kind: type[Exception]) -> None:
    play = Play(lambda _: answer)
    with pytest.raises(kind) as told:
        play.run(seeker(play).seek())
    assert len(play.sent) == 1
    assert "a-secret-token" not in f"{told.value!s}{told.value!r}"


@pytest.mark.parametrize(
    "silence", [LOST, REFUSED, Answer(502, {}, b""), Answer(504, {}, b""), no("unavailable")]
)
def test_no_answer_is_asked_again(silence: Answer | Lost) -> None:
    """T75: a lost answer is no second sandbox: the same key is asked for again."""
    play = Play(in_turn(silence, silence, yes()))
    play.run(seeker(play).seek())
    assert len(play.sent) == 3
    assert len({s.body["key"] for s in play.sent}) == 1


def test_an_outage_is_met_with_ten_retries_and_one_a_second() -> None:
    """A client of a thousand callers adds no load to an outage, and is back at once after it."""
    callers, outage = 1000, 30.0
    play = Play(lambda sent: LOST if sent.at < outage else yes())
    play.run_all([seeker(play, deadline=90).seek() for _ in range(callers)])
    into = [s for s in play.sent if s.at < outage]
    assert len(into) <= callers + 10 + outage + 1
    assert len(into) >= callers + 10 + outage - 2
    assert len(play.sent) == len(into) + callers
    assert play.seconds < outage + 5


def test_refusals_with_an_appointment_take_no_token() -> None:
    play = Play(lambda sent: no("pool_full", retry_after_ms=1000) if sent.at < 20 else yes())
    play.run_all([seeker(play).seek() for _ in range(200)])
    assert len([s for s in play.sent if 1 <= s.at < 1.3]) == 200


def test_the_next_address_is_asked_where_one_does_not_answer() -> None:
    play = Play(lambda sent: REFUSED if sent.address == "a" else yes(), addresses="http://a,http://b")
    play.core._at = 0
    play.run(seeker(play).seek())
    play.run(seeker(play).seek())
    assert [s.address for s in play.sent] == ["a", "b", "b"]


@pytest.mark.parametrize("first", [LOST, no("unavailable")])
def test_what_one_address_heard_is_not_forgotten_over_the_next(first: Answer | Lost) -> None:
    play = Play(lambda sent: first if sent.address == "a" else REFUSED, addresses="http://a,http://b")
    play.core._at = 0
    failed = seeker(play, deadline=0)
    with pytest.raises(Unreachable) as told:
        play.run(failed.seek())
    assert told.value.heard
    assert failed.undo(told.value) is not None


def first_then_yes(first: Answer | Lost) -> Play:
    play = Play(lambda sent: first if sent.address == "a" else yes(), addresses="http://a,http://b")
    play.core._at = 0
    return play


def test_what_may_not_be_done_twice_goes_on_only_unheard() -> None:
    once = Call("POST", "/v1/once")
    play = first_then_yes(LOST)
    with pytest.raises(Unreachable):
        play.run(play.core.do(once))
    assert [s.address for s in play.sent] == ["a"]
    play = first_then_yes(REFUSED)
    play.run(play.core.do(once))
    assert [s.address for s in play.sent] == ["a", "b"]


def test_a_waiter_comes_back_shortly_before_its_turn() -> None:
    play = Play(in_turn(place(poll_after_ms=45_000), yes()))
    play.run(seeker(play, mode="queue", deadline=120).seek())
    assert [s.what for s in play.sent] == [
        "POST /v1/admissions",
        f"POST /v1/admissions/{play.sent[0].body['key']}/attempt?wait_ms=30000",
    ]
    assert play.sent[1].at == pytest.approx(45, abs=0.01)


def test_a_watched_waiter_asks_each_5_s() -> None:
    heard: list[int | None] = []
    play = Play(
        in_turn(place(poll_after_ms=45_000), *(place(position=n) for n in (3, 2, 1)), yes()), took=4.9
    )
    play.run(seeker(play, mode="queue", on_progress=lambda w: heard.append(w.position)).seek())
    assert heard == [4, 3, 2, 1]
    assert all(s.what.endswith("wait_ms=5000") for s in play.sent[1:])


def test_one_that_gives_polls_back_at_once_is_not_asked_at_once() -> None:
    play = Play(lambda _: place(), took=0.001)
    with pytest.raises(StillWaiting):
        play.run(seeker(play, mode="queue", deadline=30).seek())
    assert len(play.sent) < 80


def test_the_place_is_kept_when_patience_ends() -> None:
    play = Play(lambda _: place(), took=10.0)
    with pytest.raises(StillWaiting) as told:
        play.run(seeker(play, mode="queue", deadline=15, key="run-7").seek())
    assert not any(s.what.startswith("DELETE") for s in play.sent)
    assert told.value.key == "run-7"
    assert told.value.waiting.position == 4
    assert told.value.figures.position == 4
    assert told.value.retry_after == 60


def test_the_place_is_given_up_where_the_caller_says_so() -> None:
    play = Play(lambda sent: yes(state="released") if sent.what.startswith("DELETE") else place(), took=10.0)
    with pytest.raises(StillWaiting):
        play.run(seeker(play, mode="queue", deadline=15, key="run-7", give_up_place=True).seek())
    assert play.sent[-1].what == "DELETE /v1/admissions/run-7"


def test_an_interrupted_call_gives_back_what_may_stand() -> None:
    play = Play(in_turn(no("not_found", 404), yes(state="released")))
    cut = seeker(play, key="run-7")
    assert cut.undo(KeyboardInterrupt()) is None
    next(cut.seek())
    undo = cut.undo(KeyboardInterrupt())
    assert undo is not None
    play.run(undo)
    # What was cut off may be heard later than its undoing: so it is told twice.
    assert [s.what for s in play.sent] == ["DELETE /v1/admissions/run-7"] * 2
    kept = seeker(play, key="run-7", keep_place=True)
    next(kept.seek())
    assert kept.undo(KeyboardInterrupt()) is None


@pytest.mark.parametrize(
    ("answer", "key", "undone"),
    [
        (LOST, None, True),  # nobody knows what became of it, nor the key
        (LOST, "run-7", False),  # its caller asks again
        (REFUSED, None, False),  # it cannot have been heard
        (no("pool_full"), None, False),
        (Answer(502, {}, b""), None, True),
    ],
)
def test_what_a_failed_call_leaves_behind(answer: Answer | Lost, key: str | None, undone: bool) -> None:
    play = Play(lambda _: answer)
    failed = seeker(play, key=key, deadline=0)
    with pytest.raises(NotNow) as told:
        play.run(failed.seek())
    assert (failed.undo(told.value) is not None) == undone


def test_an_unknown_option_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        split("build", {"memory": 7})


def test_the_time_since_the_first_refusal_is_counted_over_places_too() -> None:
    told: list[Any] = []
    play = Play(in_turn(place(), yes()), took=3.0)
    play.run(seeker(play, mode="queue", on_admitted=lambda *a: told.append(a[1:])).seek())
    assert told == [(2, pytest.approx(3.0, abs=0.3))]
    play = Play(in_turn(LOST, yes()))
    play.run(seeker(play, on_admitted=lambda *a: told.append(a[1:])).seek())
    assert told[1] == (2, None)


def test_resume_attempts_and_never_posts() -> None:
    play = Play(in_turn(place(), yes()), took=20.0)
    play.run(resumed(play).seek())
    assert {s.what.partition("?")[0] for s in play.sent} == {"POST /v1/admissions/k/attempt"}


def test_unreachable_says_where_and_why() -> None:
    play = Play(lambda _: REFUSED)
    with pytest.raises(Unreachable, match="no answer from http://a: connection refused") as told:
        play.run(seeker(play, deadline=3).seek())
    assert told.value.code == ""
    assert told.value.key
