"""What a client does, without I/O: programs for whichever shell. One per client.

A client may be used from several threads, so what programs share is changed under a lock.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from . import _calls, wire
from ._calls import Call, by_id, by_key
from ._effects import Lost, Program, Send, Sleep, Surroundings
from .backoff import MS, SECOND, Backoff, Budget, Outcome, Verdict, put_off
from .codes import MEANINGS
from .errors import NotNow, PlimsollError, QueueTimeout, Unreachable
from .options import Pace
from .wire import Admission, Decision, DecisionList, Redemption

T = TypeVar("T")

PERSISTENCE = 10 * SECOND
"""How long an undoing is tried against replicas that do not answer."""
_WIDEST = 2 * SECOND  # and its widest window
_LATE = SECOND // 4
"""How much later than its undoing a request may be heard that was cut off."""

_FIRST_LOOK, _LAST_LOOK = 50 * MS, SECOND
_LOOK_FOR = 30 * SECOND


class Core:
    """Addresses, token and budget of one client, and the programs of its calls."""

    def __init__(
        self, addresses: str | Sequence[str], token: str, pace: Pace, user_agent: str, around: Surroundings
    ) -> None:
        given = addresses.split(",") if isinstance(addresses, str) else addresses
        self.bases = [_calls.parse_address(one) for one in given]
        if not self.bases:
            raise ValueError("a client needs an address, like http://127.0.0.1:7070")
        self.around = around
        self.pace = pace
        self._headers = {"accept": "application/json, application/problem+json", "user-agent": user_agent}
        if _calls.check_token(token):
            self._headers["authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._at = around.rand() % len(self.bases)  # so that many clients do not all ask the first
        self._budget = Budget(self._now_ms())

    def _now_ms(self) -> int:
        return self.around.now() // MS

    # One call, at one replica or the next.

    def do(self, call: Call) -> Program[Any]:
        """Send one call; where a replica does not answer, ask the next."""
        first, last, heard = self._at, len(self.bases) - 1, False
        for i in range(len(self.bases)):
            at = (first + i) % len(self.bases)
            try:
                said = yield from self._ask(self.bases[at], call)
            except PlimsollError as err:
                if not _calls.unanswered(err):
                    self._at = at
                    if _calls.answered(err):
                        self._credit()
                    raise
                self._at = (at + 1) % len(self.bases)  # whoever asks again begins there
                unheard = isinstance(err, Unreachable) and not err.heard
                heard = heard or not unheard
                if i < last and (call.repeatable or unheard):
                    continue
                if isinstance(err, Unreachable):
                    err.heard = heard  # by this address, or by one before
                raise
            else:
                self._at = at
                self._credit()
                return said
        raise AssertionError("unreachable")

    def _credit(self) -> None:
        """Tell the budget of an answer."""
        with self._lock:
            self._budget.answered(self._now_ms())

    def _ask(self, base: str, call: Call) -> Program[Any]:
        headers, body = dict(self._headers), None
        if call.body is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(call.body, separators=(",", ":")).encode()
        most = round(self.pace.timeout * SECOND)
        within = min(call.within, most) if call.within is not None else most
        heard = yield Send(call.method, _calls.url_of(base, call), headers, body, within + call.held)
        if isinstance(heard, Lost):
            raise Unreachable(base, heard.cause, heard=heard.heard)
        return _calls.read(call, heard, self.around.wall())

    def fetch(self, kind: type[T], call: Call) -> Program[T]:
        """Send one call and read its answer as one of the wire's types."""
        return self.read(kind, call, (yield from self.do(call)))

    def read(self, kind: type[T], call: Call, said: object) -> T:
        """Read an answer as one of the wire's types."""
        try:
            return wire.decode(kind, said)
        except wire.MalformedError as err:
            raise _calls.fault(f"{call.method} {call.path}: read the answer: {err}") from None

    # Again, after a while.

    def token(self, err: PlimsollError, end: int) -> Program[bool]:
        """Wait for leave to ask again; False where `end` comes before it.

        A gate that does not answer is asked within the budget alone, so that no number of callers
        adds to an outage.
        """
        while _calls.unanswered(err) and not self._take():
            ns = put_off(self.around.rand())
            if self.around.now() + ns >= end:
                return False
            yield Sleep(ns)
        return True

    def _take(self) -> bool:
        with self._lock:
            return self._budget.take(self._now_ms())

    def persist(self, call: Call, worth: Callable[[PlimsollError], bool]) -> Program[Any]:
        """Send an idempotent call, and send it again when the error is worth that."""
        began = self.around.now()
        pacer = Backoff(self.pace.policy(PERSISTENCE, widest=_WIDEST), began)
        while True:
            try:
                return (yield from self.do(call))
            except PlimsollError as err:
                ns, verdict = pacer.next(self.around.now(), outcome(err), self.around.rand())
                if not worth(err) or verdict is not Verdict.RETRY:
                    raise
                yield Sleep(ns)
                if not (yield from self.token(err, began + PERSISTENCE)):
                    raise

    # Calls.

    def get(self, path: str) -> Program[Admission]:
        """Look at an admission."""
        return self.fetch(Admission, Call("GET", path, repeatable=True))

    def heartbeat(self, path: str, within: int | None = None) -> Program[Admission]:
        """Keep an admission alive."""
        return self.fetch(Admission, Call("POST", path + "/heartbeat", repeatable=True, within=within))

    def release(self, path: str, epoch: int | None = None) -> Program[Admission]:
        """Give an admission back, and wait a while for its end."""
        query = {"epoch": epoch} if epoch is not None else None
        call = Call("DELETE", path, query=query, repeatable=True)
        a = self.read(Admission, call, (yield from self.persist(call, again)))
        try:
            return (yield from self._gone(a))
        except PlimsollError as err:
            if err.code == "not_found":  # its host alone recorded it, and has forgotten it since
                return replace(a, state="released")
            raise

    def _gone(self, a: Admission) -> Program[Admission]:
        """Wait until a host says that what is being released is gone. By its id: the key may be another's."""
        look, end = _FIRST_LOOK, self.around.now() + _LOOK_FOR
        call = Call("GET", by_id(a.id), repeatable=True)
        while a.state == "releasing" and self.around.now() < end:
            yield Sleep(look)
            a = self.read(Admission, call, (yield from self.persist(call, again)))
            look = min(2 * look, _LAST_LOOK)
        return a

    def release_admission(self, a: Admission) -> Program[Admission]:
        """Give back what was admitted, and nothing that its key stands for since."""
        return self.release(by_id(a.id), a.epoch)

    def release_key(self, key: str) -> Program[Admission]:
        """Give back whatever a key stands for."""
        return self.release(by_key(key))

    def undo(self, what: Admission | str) -> Program[None]:
        """Give back what was admitted, or what a key stands for; nothing is as good.

        A call that was cut off may be heard later than its undoing: so a key that stands for nothing is
        asked for once more.
        """
        if isinstance(what, Admission):
            yield from self._found(self.release_admission(what))
        elif not (yield from self._found(self.release_key(what))):
            yield Sleep(_LATE)
            yield from self._found(self.release_key(what))

    def _found(self, release: Program[Admission]) -> Program[bool]:
        """Run a release; False where there was nothing to release."""
        try:
            yield from release
        except PlimsollError as err:
            if err.code != "not_found":
                raise
            return False
        return True

    def explain(self, decision_id: str) -> Program[Decision]:
        """Look a decision up."""
        path = "/v1/decisions/" + quote(decision_id, safe="")
        return self.fetch(Decision, Call("GET", path, repeatable=True))

    def decisions(self, key: str) -> Program[list[Decision]]:
        """Look up what a key was told."""
        call = Call("GET", "/v1/decisions", query={"key": key}, repeatable=True)
        return (yield from self.fetch(DecisionList, call)).decisions

    def redeem(self, ticket: str, instance: str) -> Program[Redemption]:
        """Give a ticket up for a boot. The same instance again is the same redemption."""
        body = {"ticket": ticket, "instance": instance}
        call = Call("POST", "/v1/tickets:redeem", body=body, repeatable=True)
        return self.read(Redemption, call, (yield from self.persist(call, _calls.unanswered)))


def again(err: PlimsollError) -> bool:
    """Say whether a no is worth another try. Out of patience in the queue is an end."""
    return isinstance(err, NotNow) and not isinstance(err, QueueTimeout)


def outcome(err: PlimsollError) -> Outcome:
    """Return what the state machine needs to know of an error; no answer is status 0."""
    if isinstance(err, Unreachable):
        return Outcome()
    return Outcome(MEANINGS[err.code].status, err.refusal.retry_after_ms)
