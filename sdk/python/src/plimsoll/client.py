"""The blocking client: a shell that drives the programs of the core by httpx and threads."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from ._calls import by_id, by_key
from ._core import Core
from ._effects import Answer, Lost, Program, Send, Sleep, Surroundings
from ._keep import Keeper
from ._seek import Seeker
from ._shell import LIMITS, Body, answer_of, lost, request_of
from ._version import __version__
from .backoff import SECOND
from .errors import LeaseLost, NotReleased, PlimsollError
from .options import AskOptions, Pace, Patience, WaitOptions, split
from .wire import Admission, Decision, Redemption

T = TypeVar("T")
_log = logging.getLogger("plimsoll")
_LOOK = 0.05  # seconds between two looks at whether a call was cancelled


class Canceled(Exception):
    """The call was cancelled by the event that it was given."""


class Client:
    """Speaks to one control plane, at one address or at any of several. It may be used from any thread.

    address: "http://10.0.0.1:7070", several separated by commas, or a sequence of them.
    token: the bearer token of a configured consumer.
    pace: how it asks again, and how long an answer may take.
    http: another httpx.Client, for TLS settings of one's own; whoever gives it closes it.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        token: str,
        *,
        pace: Pace | None = None,
        http: httpx.Client | None = None,
        user_agent: str = f"plimsoll-python/{__version__}",
        around: Surroundings | None = None,
    ) -> None:
        self._core = Core(address, token, pace or Pace(), user_agent, around or Surroundings())
        self._http = http or httpx.Client(limits=LIMITS)
        self._owns = http is None
        self._undoing: set[threading.Thread] = set()
        self._held: set[Lease] = set()
        self._never = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is still being given back, and close the connections."""
        for thread in list(self._undoing):
            thread.join()
        if self._owns:
            self._http.close()

    def admit(
        self, class_: str, /, *, cancel: threading.Event | None = None, **options: Unpack[AskOptions]
    ) -> Admission:
        """Ask for one sandbox to be admitted, and wait for it: see `Ask` and `Patience`.

        In refuse mode it asks again within its deadline; in queue mode it waits there for its turn. Where
        it is interrupted (KeyboardInterrupt, a hook that raises), or cancelled by another thread that sets
        `cancel` (Canceled is raised then), what was asked for is given back in the background, unless
        keep_place.

        Raises NotNow when patience ends: a tempo, not a failure. Never write it to a status column: park
        the work as `waiting_capacity`, and ask again with the error's key. Never run the work outside a
        sandbox because of it.
        """
        ask, patience = split(class_, options)
        return self._seek(Seeker(self._core, ask, None, patience), cancel)

    def resume(
        self, key: str, /, *, cancel: threading.Event | None = None, **options: Unpack[WaitOptions]
    ) -> Admission:
        """Go on with a key that was asked for before.

        It waits in the queue, or its boot was refused with a 503; then it is placed anew. Raises as
        `admit` does: NotNow is a tempo, never to be written to a status column.
        """
        return self._seek(Seeker(self._core, None, key, Patience(**options)), cancel)

    def hold(
        self, class_: str, /, *, cancel: threading.Event | None = None, **options: Unpack[AskOptions]
    ) -> Hold:
        """Admit, keep alive in the background, and give back on every way out of a `with` block.

        Entering the block raises what `admit` raises: NotNow is a tempo, never to be written to a status
        column. When the lease is lost, `lease.lost` is set, `lease.check()` raises, and so does the end of
        the block. `cancel` cancels the wait for admission, as in `admit`, and nothing after it.
        """
        ask, patience = split(class_, options)
        return Hold(self, Seeker(self._core, ask, None, patience), cancel)

    def get(self, key: str) -> Admission:
        """Look at one of the caller's own admissions, and change nothing."""
        return self._run(self._core.get(by_key(key)))

    def get_id(self, id_: str) -> Admission:
        """Look at an admission by the server's name for it."""
        return self._run(self._core.get(by_id(id_)))

    def heartbeat(self, key: str) -> Admission:
        """Keep an admission alive; return it with a fresh ticket. The old one is worth nothing longer."""
        return self._run(self._core.heartbeat(by_key(key)))

    def release(self, key: str) -> Admission:
        """Give back whatever the key stands for: a sandbox, or a place in the queue.

        It may be called twice. A Never with the code not_found says that nothing was held under this key.
        It waits up to 30 s for a host to say that what ran is gone; the state is `releasing` then.
        """
        return self._run(self._core.release_key(key))

    def release_admission(self, admission: Admission) -> Admission:
        """Give back what was admitted, and nothing that its key stands for since."""
        return self._run(self._core.release_admission(admission))

    def explain(self, decision_id: str) -> Decision:
        """Say what one answer of the gate rested on: whose no it was, and what would have made it a yes.

        Errors and admissions carry the id. It is kept for a day; one's own decisions only.
        """
        return self._run(self._core.explain(decision_id))

    def decisions(self, key: str) -> list[Decision]:
        """List what a key was told, the newest first."""
        return self._run(self._core.decisions(key))

    def redeem(self, ticket: str, instance: str) -> Redemption:
        """Give a ticket up for a boot, once; `Gate` in plimsoll.substrate also verifies it first."""
        return self._run(self._core.redeem(ticket, instance))

    def release_held(self) -> None:
        """Give back whatever blocks of `hold` have not given back yet. For the end of a process."""
        for lease in list(self._held):
            try:
                lease.release()
            except NotReleased as err:
                _log.error("%s", err)

    # The shell.

    def _run(self, program: Program[T], stop: threading.Event | None = None, *, at_once: bool = False) -> T:
        """Drive a program to its end, or until `stop` is set: when it sleeps next, or at once."""
        heard: Any = None
        send = self._send if stop is None or not at_once else partial(self._send_apart, stop)
        try:
            while True:
                effect = program.send(heard)
                if isinstance(effect, Send):
                    heard = send(effect)
                else:
                    heard = None
                    self._sleep(effect, stop or self._never)
        except StopIteration as end:
            value: T = end.value
            return value

    def _sleep(self, sleep: Sleep, stop: threading.Event) -> None:
        stop.wait(sleep.ns / SECOND)
        if stop.is_set():
            raise Canceled

    def _send_apart(self, stop: threading.Event, send: Send) -> Answer | Lost:
        """Send in a thread that is left behind when `stop` is set: nothing ends a read from outside."""
        answers: queue.SimpleQueue[Answer | Lost] = queue.SimpleQueue()
        threading.Thread(
            target=lambda: answers.put(self._send(send)), name="plimsoll call", daemon=True
        ).start()
        while not stop.is_set():
            try:
                return answers.get(timeout=_LOOK)
            except queue.Empty:
                continue
        raise Canceled

    def _send(self, send: Send) -> Answer | Lost:
        end, body = time.monotonic_ns() + send.within, Body()
        try:
            response = self._http.send(request_of(send), stream=True, follow_redirects=False)
            try:
                for part in response.iter_bytes():
                    if not body.add(part):
                        break
                    if time.monotonic_ns() > end:
                        return Lost("it did not answer in time")
            finally:
                response.close()
        except httpx.HTTPError as err:
            return lost(err)
        return answer_of(response, body.whole())

    def _seek(self, seeker: Seeker, cancel: threading.Event | None) -> Admission:
        try:
            return self._run(seeker.seek(), cancel, at_once=True)
        except BaseException as err:
            self._undo(seeker.undo(err), seeker.key)
            raise

    def _undo(self, program: Program[None] | None, key: str) -> None:
        """Give back in the background what its caller was interrupted over. No daemon: it is to be told."""
        if program is None:
            return

        def undo() -> None:
            try:
                self._run(program)
            except PlimsollError as err:
                _log.error("%s could not be given back, and ends by itself: %s", key, err)
            finally:
                self._undoing.discard(thread)

        thread = threading.Thread(target=undo, name=f"plimsoll undo {key}")
        self._undoing.add(thread)
        thread.start()


class _Stopped(Exception):
    """Ends a program whose time is over."""


class Lease:
    """What is held inside of a `with` block."""

    def __init__(self, client: Client, keeper: Keeper) -> None:
        self._client = client
        self._keeper = keeper
        self._stop = threading.Event()
        self._over = threading.Event()
        self._lost: LeaseLost | None = None
        self._thread = threading.Thread(target=self._keep, name=f"plimsoll {self.key}", daemon=True)

    @property
    def admission(self) -> Admission:
        """The admission, as the newest heartbeat has it."""
        return self._keeper.admission

    @property
    def key(self) -> str:
        """The caller's name for it."""
        return self.admission.key

    @property
    def ticket(self) -> str | None:
        """The newest ticket; earlier ones are worth nothing. A secret. None once its host has booted it."""
        return self.admission.ticket

    @property
    def lost(self) -> LeaseLost | None:
        """How it was lost, if it was."""
        return self._lost

    def check(self) -> None:
        """Raise LeaseLost if it was lost: stop the work then. For loops of work to call."""
        if self._lost is not None:
            raise self._lost

    def wait_over(self, timeout: float | None = None) -> bool:
        """Wait until it is over; False if it still stands after `timeout` seconds."""
        return self._over.wait(timeout)

    def release(self) -> None:
        """Give it back now. It may be called twice; the end of the block does it."""
        self._stop.set()
        self._client._held.discard(self)
        try:
            self._client._run(self._client._core.undo(self.admission))
        except PlimsollError as err:
            raise NotReleased(self.admission, str(err)) from err
        except BaseException:  # interrupted once more: it is still to be told
            undo = self._client._core.undo(self.admission)
            self._client._undo(undo, self.key)
            raise

    def _begin(self) -> None:
        self._client._held.add(self)
        self._thread.start()

    def _keep(self) -> None:
        try:
            lost = self._client._run(self._keeper.keep(), self._stop)
        except Canceled:
            lost = None
        except Exception as err:  # noqa: BLE001 - a thread that died would keep nothing, and say nothing
            lost = LeaseLost(self.admission, f"its keeper failed: {err!r}")
        if not self._stop.is_set():  # else it was given back, and that it is over is no news
            self._lost = lost
        self._over.set()


class Hold:
    """The `with` block of `Client.hold`."""

    def __init__(self, client: Client, seeker: Seeker, cancel: threading.Event | None) -> None:
        self._client = client
        self._seeker = seeker
        self._cancel = cancel
        self._lease: Lease | None = None

    def __enter__(self) -> Lease:
        if self._lease is not None:
            raise RuntimeError("a hold is entered once; make another")
        admission = self._client._seek(self._seeker, self._cancel)
        self._lease = Lease(self._client, Keeper(self._client._core, admission, self._seeker.since))
        self._lease._begin()
        return self._lease

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lease is not None  # noqa: S101
        try:
            self._lease.release()
        except NotReleased as told:
            if err is None:
                raise
            _log.error("%s", told)
            err.add_note(f"beside it, {told}")
        if err is None:
            self._lease.check()
        elif self._lease.lost not in (None, err):
            err.add_note(f"beside it, {self._lease.lost}")
