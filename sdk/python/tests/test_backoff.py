"""The pure part of waiting computes what the other SDKs compute, to the bit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from vectors import cases, load, named

from plimsoll.backoff import MS, Backoff, Budget, Outcome, Policy, away, hint, put_off


def wall(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def policy(case: Any) -> Policy:
    given = {name: case["policy"][f"{name}_ms"] * MS for name in ("base", "cap", "deadline")}
    return Policy(**{name: ns for name, ns in given.items() if ns > 0})


@pytest.mark.parametrize("case", cases("backoff"), ids=named)
def test_backoff(case: Any) -> None:
    request = Backoff(policy(case), case["start_ms"] * MS)
    for n, step in enumerate(case["steps"]):
        outcome = Outcome(step["status"], step["retry_ms"], step["retry_after"])
        got = request.next(step["now_ms"] * MS, outcome, int(step["rand"]), wall(step["now_ms"]))
        assert (str(got[0]), got[1].value) == (step["delay_ns"], step["verdict"]), f"step {n}"


@pytest.mark.parametrize("case", cases("retry_after"), ids=named)
def test_retry_after(case: Any) -> None:
    got = hint(Outcome(503, case["retry_ms"], case["retry_after"]), wall(case["now_ms"]))
    assert got == case["hint_ms"] * MS


@pytest.mark.parametrize("case", cases("away"), ids=named)
def test_away(case: Any) -> None:
    assert (
        away(*(case[name] * MS for name in ("poll_after_ms", "left_ms", "hold_ms"))) == case["away_ms"] * MS
    )


@pytest.mark.parametrize("case", cases("budget"), ids=named)
def test_budget(case: Any) -> None:
    budget = Budget(case["start_ms"])
    for n, step in enumerate(case["steps"]):
        if step["do"] == "answered":
            budget.answered(step["now_ms"])
        else:
            assert budget.take(step["now_ms"]) == step["ok"], f"step {n}"


def test_put_off() -> None:
    for case in load("sdk/vectors/budget.json")["put_off"]:
        assert put_off(int(case["rand"])) == int(case["delay_ns"])
