"""The scenarios that every SDK plays, over real sockets against a real replica; the stage judges."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from stage import Stage, standing
from vectors import cases, named

from plimsoll import (
    AsyncClient,
    Canceled,
    Client,
    Internal,
    LeaseLost,
    Never,
    NotAllowed,
    NotNow,
    Pace,
    PlimsollError,
    QueueTimeout,
    StillWaiting,
    Unreachable,
)
from plimsoll.substrate import AsyncGate, AudienceKeys, Gate

CASES = cases("scenarios")
STAGES = 3
OUTCOMES: list[tuple[type[BaseException], str]] = [
    (StillWaiting, "still_waiting"),
    (Unreachable, "unreachable"),
    (QueueTimeout, "queue_timeout"),
    (NotNow, "not_now"),
    (NotAllowed, "not_allowed"),
    (Never, "never"),
    (LeaseLost, "lost"),
    (Internal, "internal"),
    (asyncio.CancelledError, "canceled"),
    (KeyboardInterrupt, "canceled"),
    (Canceled, "canceled"),
]


class BodyError(Exception):
    def __init__(self) -> None:
        super().__init__("the body failed")


class Play:
    """One caller of a scenario, and what it saw."""

    def __init__(self, stage: Stage, case: Any, begun: Any) -> None:
        self.stage = stage
        self.case = case
        self.begun = begun
        self.o = case["options"]
        self.key = self.o.get("key", "")
        self.seen: dict[str, Any] = {
            "outcome": "admitted",
            "code": "",
            "reason": "",
            "positions": [],
            "retries": [],
            "attempts": 0,
            "since_first_refusal_ms": None,
            "key": self.key,
            "body_ran": False,
            "error_text": "",
        }
        self.began = time.monotonic()
        self.cancel: Callable[[], object] = lambda: None
        self.canceled = threading.Event()

    def waits(self) -> dict[str, Any]:
        options = {
            "deadline": self.o.get("patience_ms", 0) / 1000,
            "on_retry": self.retry,
            "on_admitted": self.admitted,
            "give_up_place": self.o.get("give_up_place", False),
            "keep_place": self.o.get("keep_place", False),
        }
        return options | ({"on_progress": self.progress} if self.o.get("watch") else {})

    def asks(self) -> dict[str, Any]:
        given = {name: self.o[name] for name in ("mode", "tenant") if name in self.o}
        return self.waits() | given | {"key": self.key or None}

    @property
    def class_(self) -> str:
        return str(self.o.get("class") or self.stage.note["class"])

    @property
    def keys(self) -> AudienceKeys:
        return AudienceKeys.parse(self.stage.note["audience_keys"])

    def retry(self, err: NotNow, seconds: float) -> None:
        self.seen["retries"].append({"code": err.code, "in_ms": seconds * 1000})

    def progress(self, place: Any) -> None:
        self.seen["positions"].append(place.position or 0)

    def admitted(self, admission: Any, attempts: int, since: float | None) -> None:
        since_ms = None if since is None else round(since * 1000)
        self.seen |= {"key": admission.key, "attempts": attempts, "since_first_refusal_ms": since_ms}

    def ended(self, err: BaseException | None) -> dict[str, Any]:
        self.seen["elapsed_ms"] = (time.monotonic() - self.began) * 1000
        if err is None:
            return self.seen
        self.seen["error_text"] = str(err)
        if isinstance(err, BodyError):
            return self.seen
        self.seen["outcome"] = next(name for kind, name in OUTCOMES if isinstance(err, kind))
        if isinstance(err, PlimsollError) and not isinstance(err, LeaseLost):
            self.seen |= {"code": err.code, "reason": err.refusal.reason}
        return self.seen


def pace(case: Any) -> Pace:
    o = case["options"]
    return Pace(o.get("base_ms", 250) / 1000, o.get("cap_ms", 8000) / 1000, o.get("timeout_ms", 15000) / 1000)


def verdict(stage: Stage, case: Any, results: list[dict[str, Any]]) -> str:
    seen = results[0] if len(results) == 1 else {"results": results}
    said = stage.post("/check", {"name": case["name"]} | seen)
    return "ok" if said == {"ok": True} else "\n".join([*said.get("faults", []), str(results[:3])])


# Blocking: callers are threads. What cancels is an event, and in the main thread an interrupt.


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@contextmanager
def interrupted(after: float) -> Iterator[None]:
    """Interrupt the main thread, as Ctrl-C does."""
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def event_set(event: threading.Event, after: float) -> Iterator[None]:
    """Cancel by an event, as another thread does."""
    timer = threading.Timer(after, event.set)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def do_blocking(play: Play, client: Client) -> None:
    match play.case["do"]:
        case "admit":
            client.admit(play.class_, cancel=play.canceled, **play.asks())
        case "resume":
            client.resume(play.key, cancel=play.canceled, **play.waits())
        case "release":
            client.release(play.key)
            play.seen["outcome"] = "released"
        case "redeem":
            with Client(
                play.stage.addresses(), play.stage.token("substrate"), pace=pace(play.case)
            ) as substrate:
                Gate(substrate, play.keys).redeem(play.begun["ticket"], play.o["instance"])
            play.seen["body_ran"] = True
        case "hold":
            with client.hold(play.class_, **play.asks()) as lease:
                play.seen["body_ran"] = True
                lease.wait_over(play.o.get("hold_ms", 0) / 1000)
                lease.check()
                if play.o.get("body") == "throw":
                    raise BodyError
                if play.o.get("body") == "cancel":
                    with interrupted(0.001):
                        time.sleep(10)


def play_blocking(play: Play, client: Client) -> dict[str, Any]:
    try:
        if after := play.o.get("cancel_after_ms"):
            in_main = threading.current_thread() is threading.main_thread()
            with interrupted(after / 1000) if in_main else event_set(play.canceled, after / 1000):
                do_blocking(play, client)
        else:
            do_blocking(play, client)
    except (PlimsollError, BodyError, Canceled, KeyboardInterrupt) as err:
        return play.ended(err)
    return play.ended(None)


def blocking_one(stage: Stage, case: Any) -> Any:
    addresses = stage.addresses(case["options"].get("addresses", 1))
    with Client(addresses, stage.token(), pace=pace(case)) as client:
        begun = stage.post("/begin", {"name": case["name"]})
        plays = [Play(stage, case, begun) for _ in range(case["options"].get("callers", 1))]
        if len(plays) == 1:
            return verdict(stage, case, [play_blocking(plays[0], client)])
        with ThreadPoolExecutor(len(plays)) as pool:
            return verdict(stage, case, list(pool.map(lambda play: play_blocking(play, client), plays)))


def cancels(case: Any) -> bool:
    return "cancel_after_ms" in case["options"] or case["options"].get("body") == "cancel"


def crowds(case: Any) -> bool:
    """Say that many callers play it: they would disturb the clocks of others in this process."""
    return bool(case["options"].get("callers", 1) > 1)


def all_blocking() -> dict[str, Any]:
    """Play them all: a scenario is mostly waiting, so several stages share them."""
    quiet = [case for case in CASES if not cancels(case) and not crowds(case)]
    said: dict[str, Any] = {}

    def share(n: int) -> None:
        with standing() as stage:
            said.update({case["name"]: blocking_one(stage, case) for case in quiet[n::STAGES]})

    with ThreadPoolExecutor(STAGES) as pool, standing() as stage:
        shares = [pool.submit(share, n) for n in range(STAGES)]
        alone = [case for case in CASES if cancels(case) and not crowds(case)]
        said.update({case["name"]: blocking_one(stage, case) for case in alone})
        for one in shares:
            one.result()
        said.update({case["name"]: blocking_one(stage, case) for case in CASES if crowds(case)})
    return said


# Asynchronous: callers are tasks, and what cancels is asyncio.


async def do_async(play: Play, client: AsyncClient) -> None:
    match play.case["do"]:
        case "admit":
            await client.admit(play.class_, **play.asks())
        case "resume":
            await client.resume(play.key, **play.waits())
        case "release":
            await client.release(play.key)
            play.seen["outcome"] = "released"
        case "redeem":
            async with AsyncClient(
                play.stage.addresses(), play.stage.token("substrate"), pace=pace(play.case)
            ) as c:
                await AsyncGate(c, play.keys).redeem(play.begun["ticket"], play.o["instance"])
            play.seen["body_ran"] = True
        case "hold":
            async with client.hold(play.class_, **play.asks()):
                play.seen["body_ran"] = True
                await asyncio.sleep(play.o.get("hold_ms", 0) / 1000)
                if play.o.get("body") == "throw":
                    raise BodyError
                if play.o.get("body") == "cancel":
                    play.cancel()
                    await asyncio.sleep(10)


async def play_async(play: Play, client: AsyncClient) -> dict[str, Any]:
    task = asyncio.create_task(do_async(play, client))
    play.cancel = task.cancel
    if after := play.o.get("cancel_after_ms"):
        asyncio.get_running_loop().call_later(after / 1000, task.cancel)
    try:
        await task
    except (PlimsollError, BodyError, asyncio.CancelledError) as err:
        return play.ended(err)
    return play.ended(None)


async def async_one(stage: Stage, case: Any) -> Any:
    addresses = stage.addresses(case["options"].get("addresses", 1))
    async with AsyncClient(addresses, stage.token(), pace=pace(case)) as client:
        begun = await asyncio.to_thread(stage.post, "/begin", {"name": case["name"]})
        plays = [Play(stage, case, begun) for _ in range(case["options"].get("callers", 1))]
        results = await asyncio.gather(*(play_async(play, client) for play in plays))
        return await asyncio.to_thread(verdict, stage, case, results)


def all_async() -> dict[str, Any]:
    """Play them all, several at once, each on an event loop of its own."""
    said: dict[str, Any] = {}

    async def play(stage: Stage, some: list[Any]) -> None:
        for case in some:
            said[case["name"]] = await async_one(stage, case)

    def share(n: int) -> None:
        with standing() as stage:
            asyncio.run(play(stage, [case for case in CASES if not crowds(case)][n::STAGES]))

    with ThreadPoolExecutor(STAGES) as pool, standing() as stage:
        for one in [pool.submit(share, n) for n in range(STAGES)]:
            one.result()
        asyncio.run(play(stage, [case for case in CASES if crowds(case)]))
    return said


@pytest.fixture(scope="module")
def played() -> dict[str, dict[str, Any]]:
    """Play all of both; the blocking ones have the main thread, which alone can be interrupted."""
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(all_async)
        return {"blocking": all_blocking(), "async": other.result()}


@pytest.mark.parametrize("client", ["blocking", "async"])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_scenario(played: dict[str, dict[str, Any]], client: str, case: Any) -> None:
    assert played[client][case["name"]] == "ok"
