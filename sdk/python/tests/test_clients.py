"""Both shells, over real sockets: time limits, cancellation, and what is given back on every way out."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from play import no, place, yes
from standin import DRIP, DROP, HANG, Standin, standing_in

from plimsoll import (
    AsyncClient,
    Canceled,
    Client,
    Internal,
    Lease,
    LeaseLost,
    NotNow,
    NotReleased,
    Pace,
    PlimsollError,
    StillWaiting,
    Unreachable,
    _core,
)
from plimsoll._effects import Answer
from plimsoll.backoff import SECOND

TOKEN = "a-secret-token"
RELEASE = "DELETE /v1/admissions/id/adm-1?epoch=7"
HEARTBEAT = "POST /v1/admissions/id/adm-1/heartbeat"
SRC = str(Path(__file__).resolve().parents[1] / "src")


def admitting(
    heartbeat: Answer | str | None = None, release: Answer | str | None = None
) -> Callable[[str], Any]:
    def gate(what: str) -> Answer | str:
        if what.startswith("DELETE"):
            return release or yes(state="released")
        if what.endswith("/heartbeat"):
            return heartbeat or yes(ticket="plm1.newer")
        return yes(ticket="plm1.first", heartbeat_ms=300)

    return gate


def fail_when_over(lease: Lease) -> None:
    lease.wait_over(10)
    raise Broke


def renewed(ticket: Callable[[], str | None]) -> None:
    end = time.monotonic() + 10
    while ticket() != "plm1.newer":
        assert time.monotonic() < end
        time.sleep(0.001)


class Broke(Exception):
    pass


def blocking(standin: Standin) -> Client:
    return Client(standin.address, TOKEN)


# Time limits and what is followed.


@pytest.mark.parametrize("fault", [HANG, DRIP, DROP])
def test_no_answer_within_its_time(fault: str) -> None:
    pace = Pace(timeout=0.2)
    with standing_in(lambda _: fault) as standin:
        with Client(standin.address, TOKEN, pace=pace) as client, pytest.raises(Unreachable) as told:
            client.admit("build", deadline=0, key="run-7")
        assert told.value.heard
        assert TOKEN not in str(told.value)

        async def main() -> None:
            async with AsyncClient(standin.address, TOKEN, pace=pace) as client:
                await client.admit("build", deadline=0, key="run-7")

        with pytest.raises(Unreachable):
            asyncio.run(main())
    assert standin.count("POST /v1/admissions") == 2


def test_nothing_listens() -> None:
    with standing_in(lambda _: yes()) as standin:
        pass
    with blocking(standin) as client, pytest.raises(Unreachable) as told:
        client.admit("build", deadline=0)
    assert not told.value.heard


def test_no_redirect_is_followed_and_the_token_stays_here() -> None:
    with standing_in(lambda _: yes()) as elsewhere:
        moved = Answer(307, {"location": elsewhere.address + "/v1/admissions"}, b"")
        with standing_in(lambda _: moved) as standin, blocking(standin) as client:
            with pytest.raises(Internal, match="307"):
                client.admit("build")
            assert standin.headers[0]["authorization"] == f"Bearer {TOKEN}"
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:7070", "ftp://a", "http://", "http://u:p@a", "http://a:x"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(address, TOKEN)


def test_a_token_that_cannot_be_sent_is_not_repeated() -> None:
    with pytest.raises(ValueError) as told:
        Client("http://a", "two words")
    assert "two words" not in str(told.value)


# The blocking hold.


def test_hold_keeps_gives_back_and_has_the_newest_ticket() -> None:
    with standing_in(admitting()) as standin, blocking(standin) as client:
        with client.hold("build") as lease:
            assert lease.ticket == "plm1.first"
            standin.wait_for(HEARTBEAT)
            renewed(lambda: lease.ticket)
            lease.check()
        assert standin.count(RELEASE) == 1


@pytest.mark.parametrize("error", [Broke, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_hold_gives_back_whatever_ends_its_body(error: type[BaseException]) -> None:
    with standing_in(admitting()) as standin, blocking(standin) as client:
        with pytest.raises(error), client.hold("build"):
            raise error
        assert standin.count(RELEASE) == 1


def test_hold_tells_of_a_lost_lease() -> None:
    with standing_in(admitting(heartbeat=no("not_found", 404))) as standin, blocking(standin) as client:
        with pytest.raises(LeaseLost) as told, client.hold("build") as lease:
            assert lease.wait_over(10)
        assert lease.lost is told.value
        with pytest.raises(LeaseLost):
            lease.check()
        assert standin.count(RELEASE) == 1


def test_a_loss_beside_an_error_of_the_body_is_noted() -> None:
    with standing_in(admitting(heartbeat=no("forbidden", 403))) as standin, blocking(standin) as client:
        with pytest.raises(Broke) as broke, client.hold("build") as lease:
            fail_when_over(lease)
        assert "lost" in broke.value.__notes__[0]


def test_a_release_that_could_not_be_told_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "PERSISTENCE", SECOND // 2)
    with standing_in(admitting(release=DROP)) as standin, blocking(standin) as client:
        with pytest.raises(NotReleased) as told, client.hold("build"):
            pass
        assert isinstance(told.value.__cause__, Unreachable)
        with pytest.raises(Broke) as broke, client.hold("build"):
            raise Broke
        assert "not_released" in broke.value.__notes__[0]


def test_release_in_the_body_is_no_loss() -> None:
    with standing_in(admitting()) as standin, blocking(standin) as client:
        with client.hold("build") as lease:
            lease.release()
        assert lease.lost is None
        assert standin.count(RELEASE) == 2


def test_an_interrupted_wait_is_given_back_in_the_background() -> None:
    """KeyboardInterrupt ends a long poll at once, and the place is given up."""
    gate = {"POST /v1/admissions": place(), "DELETE": yes(state="released")}
    with standing_in(lambda what: gate.get(what) or gate.get(what.split()[0]) or HANG) as standin:
        with blocking(standin) as client:
            began = time.monotonic()
            ringing = threading.Thread(target=ring, args=(standin, "POST /v1/admissions/run-7/attempt"))
            ringing.start()
            with pytest.raises(KeyboardInterrupt):
                client.admit("build", mode="queue", key="run-7")
            assert time.monotonic() - began < 5
            ringing.join()
        assert standin.count("DELETE /v1/admissions/run-7") == 1


def test_another_thread_cancels_a_call_by_an_event() -> None:
    gate = {"POST /v1/admissions": place(), "DELETE": yes(state="released")}
    with standing_in(lambda what: gate.get(what) or gate.get(what.split()[0]) or HANG) as standin:
        cancel = threading.Event()

        def other() -> None:
            standin.wait_for("POST /v1/admissions/run-7/attempt")
            cancel.set()

        with blocking(standin) as client, ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            pool.submit(other)
            with pytest.raises(Canceled):
                client.admit("build", mode="queue", key="run-7", cancel=cancel)
            assert time.monotonic() - began < 5
        assert standin.count("DELETE /v1/admissions/run-7") == 1


def test_an_event_cancels_between_two_calls_and_there_is_nothing_to_give_back() -> None:
    with (
        standing_in(lambda _: no("pool_full", retry_after_ms=60_000)) as standin,
        blocking(standin) as client,
    ):
        cancel = threading.Event()
        with pytest.raises(Canceled):
            client.admit("build", cancel=cancel, on_retry=lambda *_: cancel.set())
        assert standin.asked == ["POST /v1/admissions"]


def ring(standin: Standin, when: str) -> None:
    standin.wait_for(when)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_a_hook_that_raises_is_an_interruption_too() -> None:
    def hook(_: Any) -> None:
        raise Broke

    gate = {"POST /v1/admissions": place(), "DELETE": yes(state="released")}
    with standing_in(lambda what: gate.get(what) or gate[what.split()[0]]) as standin:
        with blocking(standin) as client, pytest.raises(Broke):
            client.admit("build", mode="queue", key="run-7", on_progress=hook)
        assert standin.count("DELETE /v1/admissions/run-7") == 1


def test_one_client_serves_many_threads() -> None:
    with standing_in(admitting()) as standin, blocking(standin) as client:
        got: list[str] = []

        def one() -> None:
            with client.hold("build") as lease:
                got.append(lease.key)

        threads = [threading.Thread(target=one) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 40
        assert standin.count(RELEASE) == 40


# The asynchronous hold.


def run(standin: Standin, body: Callable[[AsyncClient], Any]) -> Any:
    async def main() -> Any:
        async with AsyncClient(standin.address, TOKEN) as client:
            return await body(client)

    return asyncio.run(main())


def test_async_hold_keeps_and_gives_back() -> None:
    async def body(client: AsyncClient) -> None:
        async with client.hold("build") as lease:
            await asyncio.to_thread(renewed, lambda: lease.ticket)

    with standing_in(admitting()) as standin:
        run(standin, body)
        assert standin.count(RELEASE) == 1


@pytest.mark.parametrize("error", [Broke, asyncio.CancelledError])
def test_async_hold_gives_back_whatever_ends_its_body(error: type[BaseException]) -> None:
    async def body(client: AsyncClient) -> None:
        async with client.hold("build"):
            raise error

    with standing_in(admitting()) as standin:
        with pytest.raises(error):
            run(standin, body)
        assert standin.count(RELEASE) == 1


@pytest.mark.parametrize("swallows", [False, True])
def test_async_hold_cancels_its_body_when_the_lease_is_lost(swallows: bool) -> None:
    async def body(client: AsyncClient) -> int:
        async def held() -> None:
            async with client.hold("build"):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if not swallows:
                        raise

        with pytest.raises(LeaseLost, match="has ended"):
            await held()
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)  # nothing of the cancellation is left
        return task.cancelling()

    with standing_in(admitting(heartbeat=no("not_found", 404, detail="it has ended"))) as standin:
        lost = {"GET": no("not_found", 404, detail="it has ended")}
        gate = standin.gate
        standin.gate = lambda what: lost.get(what.split()[0]) or gate(what)
        assert run(standin, body) == 0
        assert standin.count(RELEASE) == 1


def test_a_loss_and_a_cancellation_of_another_are_told_apart() -> None:
    async def body(client: AsyncClient) -> bool:
        async def held() -> None:
            async with client.hold("build") as lease:
                await lease.wait_over()
                task.cancel()
                await asyncio.sleep(60)

        task = asyncio.create_task(held())
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    with standing_in(admitting(heartbeat=no("forbidden", 403))) as standin:
        assert run(standin, body) is True


def test_a_cancelled_wait_ends_at_once_and_is_given_back() -> None:
    async def body(client: AsyncClient) -> None:
        task = asyncio.create_task(client.admit("build", mode="queue", key="run-7"))
        await asyncio.to_thread(standin.wait_for, "POST /v1/admissions/run-7/attempt")
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 1

    gate = {"POST /v1/admissions": place(), "DELETE": yes(state="released")}
    with standing_in(lambda what: gate.get(what) or gate.get(what.split()[0]) or HANG) as standin:
        run(standin, body)
        assert standin.count("DELETE /v1/admissions/run-7") == 1


def test_what_is_given_back_survives_the_end_of_the_loop() -> None:
    """Without `async with`, asyncio.run cancels what is left: the release is told all the same."""

    async def main() -> None:
        client = AsyncClient(standin.address, TOKEN)
        task = asyncio.create_task(client.admit("build", mode="queue", key="run-7"))
        await asyncio.to_thread(standin.wait_for, "POST /v1/admissions/run-7/attempt")
        task.cancel()

    gate = {"POST /v1/admissions": place(), "DELETE": yes(state="released")}
    with standing_in(lambda what: gate.get(what) or gate.get(what.split()[0]) or HANG) as standin:
        with warnings.catch_warnings(action="ignore"):  # its connections were never closed
            asyncio.run(main())
            gc.collect()
        assert standin.count("DELETE /v1/admissions/run-7") >= 1


def test_release_survives_the_cancellation_of_its_caller() -> None:
    slow = threading.Event()

    def gate(what: str) -> Any:
        if what.startswith("DELETE"):
            slow.wait(10)
        return admitting()(what)

    async def body(client: AsyncClient) -> None:
        async def held() -> None:
            async with client.hold("build"):
                pass

        task = asyncio.create_task(held())
        await asyncio.to_thread(standin.wait_for, RELEASE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.set()

    with standing_in(gate) as standin:
        run(standin, body)
        assert standin.count(RELEASE) == 1


# The end of a process.


def child(standin: Standin, code: str) -> subprocess.Popen[str]:
    head = "import asyncio, sys, threading, time\nfrom plimsoll import *\nfrom plimsoll.signals import *\n"
    text = head + f"client = Client({standin.address!r}, 'a')\n" + textwrap.dedent(code)
    env = os.environ | {"PYTHONPATH": SRC}
    return subprocess.Popen([sys.executable, "-c", text], env=env, stderr=subprocess.PIPE, text=True)


def test_sigterm_gives_back_what_every_thread_holds() -> None:
    code = """
        release_on_exit(client)
        def held():
            with client.hold("build"): time.sleep(60)
        threading.Thread(target=held, daemon=True).start()
        held()
    """
    with standing_in(admitting()) as standin:
        process = child(standin, code)
        standin.wait_for("POST /v1/admissions", 2)
        standin.wait_for(HEARTBEAT, 4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM, process.stderr and process.stderr.read()
        assert standin.count(RELEASE) == 2
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 1), (signal.SIGINT, 130)])
def test_signals_cancel_what_asyncio_holds(number: int, status: int) -> None:
    code = f"""
        async def main():
            async with AsyncClient({{address!r}}, "a") as client, cancel_on(), client.hold("build"):
                await asyncio.sleep(60)
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            sys.exit(130)
        except asyncio.CancelledError:
            sys.exit({status})
    """
    with standing_in(admitting()) as standin:
        process = child(standin, code.replace("{address!r}", repr(standin.address)))
        standin.wait_for(HEARTBEAT)
        process.send_signal(number)
        assert process.wait(10) == status, process.stderr and process.stderr.read()
        assert standin.count(RELEASE) == 1
        assert process.stderr is not None
        process.stderr.close()


# Errors.


def test_errors_can_be_pickled() -> None:
    gate = {"POST /v1/admissions": place(receipt="r")}
    with standing_in(lambda what: gate.get(what, no("pool_full", cap=6, pool_busy=6))) as standin:
        with blocking(standin) as client:
            told: list[PlimsollError] = []
            with pytest.raises(NotNow) as one:
                client.admit("build", mode="queue", deadline=0)
            told.append(one.value)
            with pytest.raises(NotNow) as two:
                client.resume("run-7", deadline=0)
            told.append(two.value)
        assert isinstance(told[0], StillWaiting)
        for err in told:
            again = pickle.loads(pickle.dumps(err))  # noqa: S301 - our own
            assert (type(again), str(again), again.key, again.figures) == (
                type(err),
                str(err),
                err.key,
                err.figures,
            )
