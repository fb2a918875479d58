"""The asynchronous client: a shell that drives the programs of the core by httpx and asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from ._calls import by_id, by_key
from ._core import Core
from ._effects import Answer, Effect, Lost, Program, Send, Surroundings
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


class AsyncClient:
    """Speaks to one control plane from one event loop of asyncio; its arguments are those of `Client`.

    Use it in an `async with` block: its end waits for what is still being given back.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        token: str,
        *,
        pace: Pace | None = None,
        http: httpx.AsyncClient | None = None,
        user_agent: str = f"plimsoll-python/{__version__}",
        around: Surroundings | None = None,
    ) -> None:
        self._core = Core(address, token, pace or Pace(), user_agent, around or Surroundings())
        self._http = http or httpx.AsyncClient(limits=LIMITS)
        self._owns = http is None
        self._undoing: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for what is still being given back, and close the connections."""
        if self._undoing:
            await asyncio.wait(self._undoing)
        if self._owns:
            await self._http.aclose()

    async def admit(self, class_: str, /, **options: Unpack[AskOptions]) -> Admission:
        """Ask for one sandbox to be admitted, and wait for it: see `Ask` and `Patience`.

        In refuse mode it asks again within its deadline; in queue mode it waits there for its turn. Where
        it is cancelled, it ends at once, and what was asked for is given back in the background, unless
        keep_place.

        Raises NotNow when patience ends: a tempo, not a failure. Never write it to a status column: park
        the work as `waiting_capacity`, and ask again with the error's key. Never run the work outside a
        sandbox because of it.
        """
        ask, patience = split(class_, options)
        return await self._seek(Seeker(self._core, ask, None, patience))

    async def resume(self, key: str, /, **options: Unpack[WaitOptions]) -> Admission:
        """Go on with a key that was asked for before.

        It waits in the queue, or its boot was refused with a 503; then it is placed anew. Raises as
        `admit` does: NotNow is a tempo, never to be written to a status column.
        """
        return await self._seek(Seeker(self._core, None, key, Patience(**options)))

    def hold(self, class_: str, /, **options: Unpack[AskOptions]) -> AsyncHold:
        """Admit, keep alive in the background, and give back on every way out of an `async with` block.

        Entering the block raises what `admit` raises: NotNow is a tempo, never to be written to a status
        column. When the lease is lost, the block is cancelled, and ends with a LeaseLost.
        """
        ask, patience = split(class_, options)
        return AsyncHold(self, Seeker(self._core, ask, None, patience))

    async def get(self, key: str) -> Admission:
        """Look at one of the caller's own admissions, and change nothing."""
        return await self._run(self._core.get(by_key(key)))

    async def get_id(self, id_: str) -> Admission:
        """Look at an admission by the server's name for it."""
        return await self._run(self._core.get(by_id(id_)))

    async def heartbeat(self, key: str) -> Admission:
        """Keep an admission alive; return it with a fresh ticket. The old one is worth nothing longer."""
        return await self._run(self._core.heartbeat(by_key(key)))

    async def release(self, key: str) -> Admission:
        """Give back whatever the key stands for: a sandbox, or a place in the queue.

        It may be called twice. A Never with the code not_found says that nothing was held under this key.
        It waits up to 30 s for a host to say that what ran is gone; the state is `releasing` then.
        """
        return await self._run(self._core.release_key(key))

    async def release_admission(self, admission: Admission) -> Admission:
        """Give back what was admitted, and nothing that its key stands for since."""
        return await self._run(self._core.release_admission(admission))

    async def explain(self, decision_id: str) -> Decision:
        """Say what one answer of the gate rested on: whose no it was, and what would have made it a yes.

        Errors and admissions carry the id. It is kept for a day; one's own decisions only.
        """
        return await self._run(self._core.explain(decision_id))

    async def decisions(self, key: str) -> list[Decision]:
        """List what a key was told, the newest first."""
        return await self._run(self._core.decisions(key))

    async def redeem(self, ticket: str, instance: str) -> Redemption:
        """Give a ticket up for a boot, once; `AsyncGate` in plimsoll.substrate also verifies it first."""
        return await self._run(self._core.redeem(ticket, instance))

    # The shell.

    async def _run(self, program: Program[T]) -> T:
        heard: Any = None
        try:
            while True:
                heard = await self._perform(program.send(heard))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _perform(self, effect: Effect) -> Answer | Lost | None:
        if isinstance(effect, Send):
            return await self._send(effect)
        await asyncio.sleep(effect.ns / SECOND)
        return None

    async def _send(self, send: Send) -> Answer | Lost:
        body = Body()
        try:
            async with asyncio.timeout(send.within / SECOND):
                response = await self._http.send(request_of(send), stream=True, follow_redirects=False)
                try:
                    async for part in response.aiter_bytes():
                        if not body.add(part):
                            break
                finally:
                    await response.aclose()
        except (httpx.HTTPError, TimeoutError) as err:
            return lost(err)
        return answer_of(response, body.whole())

    async def _seek(self, seeker: Seeker) -> Admission:
        try:
            return await self._run(seeker.seek())
        except BaseException as err:
            cut = err  # the name above is gone when the task runs
            if seeker.undo(cut) is not None:
                self._undo(lambda: seeker.undo(cut), seeker.key)
            raise

    def _undo(self, program: Callable[[], Program[None] | None], key: str) -> asyncio.Task[None]:
        """Give back in a task of its own, which its caller's cancellation does not reach."""

        async def once() -> None:
            again = program()
            if again is not None:
                await self._run(again)

        async def undo() -> None:
            try:
                await once()
            except asyncio.CancelledError:  # the event loop ends, and waits for this
                await once()
                raise

        task = asyncio.create_task(undo(), name=f"plimsoll undo {key}")
        self._undoing.add(task)
        task.add_done_callback(self._undone)
        return task

    def _undone(self, task: asyncio.Task[None]) -> None:
        self._undoing.discard(task)
        if not task.cancelled() and (err := task.exception()) is not None:
            _log.error("%s: not given back, and ends by itself: %s", task.get_name(), err)


class AsyncLease:
    """What is held inside of an `async with` block."""

    def __init__(self, client: AsyncClient, keeper: Keeper) -> None:
        self._client = client
        self._keeper = keeper
        self._lost: LeaseLost | None = None
        self._over = asyncio.Event()
        self._keeping = asyncio.create_task(self._keep(), name=f"plimsoll {self.key}")

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
        """Raise LeaseLost if it was lost."""
        if self._lost is not None:
            raise self._lost

    async def wait_over(self) -> None:
        """Wait until it is over."""
        await self._over.wait()

    async def release(self) -> None:
        """Give it back now. It may be called twice; the end of the block does it.

        It is given back even where its caller is cancelled meanwhile.
        """
        self._keeping.cancel()
        undo = self._client._undo(lambda: self._client._core.undo(self.admission), self.key)
        try:
            await asyncio.shield(undo)
        except PlimsollError as err:
            raise NotReleased(self.admission, str(err)) from err

    async def _keep(self) -> None:
        try:
            self._lost = await self._client._run(self._keeper.keep())
        except Exception as err:  # noqa: BLE001 - a task that died would keep nothing, and say nothing
            self._lost = LeaseLost(self.admission, f"its keeper failed: {err!r}")
        self._over.set()


class AsyncHold:
    """The `async with` block of `AsyncClient.hold`."""

    def __init__(self, client: AsyncClient, seeker: Seeker) -> None:
        self._client = client
        self._seeker = seeker
        self._lease: AsyncLease | None = None
        self._body: asyncio.Task[Any] | None = None
        self._before = 0  # cancellations of the body that are not ours
        self._cancelled = False

    async def __aenter__(self) -> AsyncLease:
        if self._lease is not None:
            raise RuntimeError("a hold is entered once; make another")
        admission = await self._client._seek(self._seeker)
        self._body = asyncio.current_task()
        self._before = self._body.cancelling() if self._body else 0
        self._lease = AsyncLease(self._client, Keeper(self._client._core, admission, self._seeker.since))
        self._lease._keeping.add_done_callback(self._tell)
        return self._lease

    def _tell(self, _: asyncio.Task[None]) -> None:
        """Cancel the body when the lease was lost."""
        if self._lease is not None and self._lease.lost is not None and self._body is not None:
            self._cancelled = self._body.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, body = self._lease, self._body
        assert lease is not None  # noqa: S101
        self._body = None  # from here on nobody is cancelled
        ours = self._cancelled and body is not None and await self._uncancel(body, err)
        try:
            await lease.release()
        except NotReleased as told:
            if err is None or ours:
                raise
            err.add_note(f"beside it, {told}")
        if ours or err is None:
            lease.check()
        elif lease.lost not in (None, err):
            err.add_note(f"beside it, {lease.lost}")

    async def _uncancel(self, body: asyncio.Task[Any], err: BaseException | None) -> bool:
        """Take our cancellation back, as asyncio.timeout does; False where the error is another's."""
        if err is None:  # it came after the body's last await, and is still to be heard
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError as late:
                err = late
        others = body.uncancel() > self._before
        if others and isinstance(err, asyncio.CancelledError):
            return False
        return err is None or isinstance(err, asyncio.CancelledError)
