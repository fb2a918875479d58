"""One request that goes on until it has a yes, a final no, or no patience left. Pure."""

from __future__ import annotations

from typing import Any

from ._calls import Call, by_key, unanswered
from ._core import Core, again, outcome
from ._effects import Program, Sleep
from .backoff import MS, SECOND, Backoff, Outcome, Verdict, away
from .errors import NotNow, PlimsollError, StillWaiting, Unreachable
from .options import Ask, Patience, new_key
from .wire import Admission, Waiting

POLL_QUIET = 30 * SECOND
"""How long one long poll is held."""
POLL_WATCHED = 5 * SECOND
"""The same where somebody watches the place."""
_EARLY_CAP = SECOND  # below the time in which a waiter that went away still counts as on time


class Seeker:
    """What `admit` and `resume` do. With an ask it is posted; without, the key is attempted."""

    def __init__(self, core: Core, ask: Ask | None, key: str | None, patience: Patience) -> None:
        self._core = core
        self._around = core.around
        self.key = key or (ask and ask.key) or new_key()
        self._own = not (key or (ask and ask.key))  # nobody else can come back to it
        self._stands = ask is None  # something may stand at the server under this key
        self._body: dict[str, Any] | None = ask.body(self.key) if ask else None
        self._patience = patience
        self._end = self._around.now() + round(patience.deadline * SECOND)
        self._pacer = self._pace()
        self._attempts = 0
        self._first_refusal: int | None = None
        self._admission: Admission | None = None
        self.since = 0
        """As of when the admission lives: when it was asked for, or granted in a long poll."""

    def seek(self) -> Program[Admission]:
        """Ask until there is an answer to return."""
        try:
            while self._admission is None:
                yield from self._try()
        except PlimsollError as err:
            err.key = self.key
            if isinstance(err, StillWaiting) and self._patience.give_up_place:
                yield from self._give_up(err)
            raise
        self._tell(self._admission)
        return self._admission

    def undo(self, err: BaseException) -> Program[None] | None:
        """Give back what this call leaves behind that ended by an error, unless somebody comes back for it.

        That is what was asked for when the call was interrupted, and what was asked for under a random key
        when nobody knows what became of it. A place that is kept is its caller's.
        """
        told = isinstance(err, PlimsollError)
        if (
            self._patience.keep_place
            or not self._stands
            or isinstance(err, StillWaiting)
            or (told and not self._own)
        ):
            return None
        return self._core.undo(self._admission or self.key)

    def _give_up(self, err: StillWaiting) -> Program[None]:
        try:
            yield from self._core.undo(self.key)
        except PlimsollError as told:
            err.add_note(f"its place could not be given up: {told}")

    def _try(self) -> Program[None]:
        asked, hold = self._around.now(), self._hold()
        before, self._stands = self._stands, True  # until it is answered, nobody knows
        try:
            said = yield from self._ask(hold)
        except PlimsollError as err:
            self._stands = self._leaves(err, before)
            if not isinstance(err, NotNow):
                raise
            self._refused(err)
            if not again(err):
                raise
            yield from self._pause(err)
            return
        if isinstance(said, Admission):
            self._admission = said
            self.since = asked if hold == 0 else self._around.now()
            return
        self._refused()
        yield from self._wait(said, early=self._around.now() - asked < hold // 2)

    def _leaves(self, err: PlimsollError, before: bool) -> bool:
        """Say whether something may stand at the server after a no."""
        if isinstance(err, Unreachable) and not err.heard:
            return before
        if unanswered(err) or not err.refusal.ours:
            return True
        if err.code in ("host_silent", "host_draining", "reservation_lapsed", "releasing"):
            return before  # about what stands already
        return self._body is None and again(err)

    def _left(self) -> int:
        return self._end - self._around.now()

    def _hold(self) -> int:
        """Return how long the next call may be held open: a post is not held."""
        if self._body is not None:
            return 0
        poll = POLL_WATCHED if self._patience.on_progress else POLL_QUIET
        return max(min(poll, self._left()), 0)

    def _ask(self, hold: int) -> Program[Admission | Waiting]:
        self._attempts += 1
        call = Call("POST", "/v1/admissions", body=self._body, repeatable=True)
        if self._body is None:
            path = by_key(self.key) + "/attempt"
            call = Call("POST", path, query={"wait_ms": hold // MS}, held=hold, repeatable=True)
        said = yield from self._core.do(call)
        if isinstance(said, dict) and said.get("code") == "waiting_capacity":
            return self._core.read(Waiting, call, said)
        return self._core.read(Admission, call, said)

    def _refused(self, err: NotNow | None = None) -> None:
        """Note when the first no came. That nobody answered is none."""
        if self._first_refusal is None and not isinstance(err, Unreachable):
            self._first_refusal = self._around.now()

    def _wait(self, w: Waiting, *, early: bool) -> Program[None]:
        """Take note of a place in the queue, and leave it alone until shortly before its turn.

        early: the server gave a long poll back long before its time, as one does that stops: then the
        next is not asked at once.
        """
        self._body = None
        if self._patience.on_progress:
            self._patience.on_progress(w)
        if self._left() <= 0:
            raise StillWaiting(w)
        if not early:
            self._pacer = self._pace(_EARLY_CAP)
            yield Sleep(self._away(w))
            return
        ns, verdict = self._pacer.next(self._around.now(), Outcome(), self._around.rand())
        if verdict is not Verdict.RETRY:
            raise StillWaiting(w)
        yield Sleep(ns)

    def _away(self, w: Waiting) -> int:
        """Not at all where somebody watches, or where one waits for what nobody measures."""
        if self._patience.on_progress or w.waiting_for != "slot":
            return 0
        return away(w.poll_after_ms * MS, self._left(), POLL_QUIET)

    def _pause(self, err: NotNow) -> Program[None]:
        """Wait for the next try, never less than the server's appointment; raise where none is left."""
        if self._left() <= 0:
            raise err
        ns, verdict = self._pacer.next(self._around.now(), outcome(err), self._around.rand())
        if verdict is not Verdict.RETRY:
            raise err
        if self._body is not None and err.receipt:
            self._body["receipt"] = err.receipt
        if self._patience.on_retry:
            self._patience.on_retry(err, ns / SECOND)
        yield Sleep(ns)
        if not (yield from self._core.token(err, self._end)):
            raise err

    def _pace(self, widest: int | None = None) -> Backoff:
        """Begin to count tries anew, within what is left of the patience."""
        return Backoff(self._core.pace.policy(self._left(), widest), self._around.now())

    def _tell(self, a: Admission) -> None:
        if self._patience.on_admitted is None:
            return
        first = self._first_refusal
        since = None if first is None else (self._around.now() - first) / SECOND
        self._patience.on_admitted(a, self._attempts, since)
