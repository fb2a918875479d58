"""How an admission is kept: heartbeats until it is over, or given back. Pure."""

from __future__ import annotations

from ._calls import by_id
from ._core import Core
from ._effects import Program, Sleep
from .backoff import MS, SECOND, Backoff, Outcome
from .errors import Internal, LeaseLost, NotNow, PlimsollError
from .wire import Admission

_LOOK = 20 * SECOND
"""How often one is looked at that needs no heartbeat: its host answers for it."""
_LEAST = SECOND // 20
"""The least between two tries."""
_FOR_EVER = 2**62


class Keeper:
    """Keeps one admission. Its program is run beside the body, and reads and writes nothing else."""

    def __init__(self, core: Core, admission: Admission, asked: int) -> None:
        self._core = core
        self._now = core.around.now
        self._note(admission, asked)

    def _note(self, a: Admission, asked: int) -> None:
        """Take note of a yes to what was asked then. A heartbeat is due in a third of what it lives.

        What a host holds is that host's to end: it goes on while no replica is there, so that silence
        ends nothing (`audience` is of what no host holds).
        """
        self.admission = a
        self._every = (a.heartbeat_ms or 0) * MS or _LOOK
        self._due = asked + self._every
        self._end = asked + 3 * self._every if a.audience else None
        self._pacer = Backoff(self._core.pace.policy(_FOR_EVER), asked)  # of tries in a row

    def keep(self) -> Program[LeaseLost | None]:
        """Keep it until it is over; return how it was lost, or None where it ended as it should."""
        while True:
            yield Sleep(max(self._due - self._now(), 0))
            asked = self._now()
            try:
                kept = yield from self._core.heartbeat(
                    by_id(self.admission.id), within=self._left() // 2 + MS
                )
            except PlimsollError as err:
                if not isinstance(err, (NotNow, Internal)):
                    return (yield from self._ended(err))
                if not (yield from self._later(err)):
                    return LeaseLost(self.admission, f"its time passed unheard: {err}")
                continue
            if not kept.alive or kept.epoch != self.admission.epoch:
                return self._over(kept)
            self._note(kept, asked)

    def _left(self) -> int:
        return _FOR_EVER if self._end is None else max(self._end - self._now(), 0)

    def _later(self, err: PlimsollError) -> Program[bool]:
        """Wait for the next try after one that failed; False where the lease's time passes first."""
        wait = self._every // 3
        if self._end is not None:
            soon, _ = self._pacer.next(self._now(), Outcome(), self._core.around.rand())
            least = max(_LEAST, err.refusal.retry_after_ms * MS)
            wait = min(max(min(soon, self._left() // 3), least), self._left())
        yield Sleep(wait)
        self._due = self._now()
        if not (yield from self._core.token(err, self._now() + self._left())):
            yield Sleep(self._left())
        return self._left() > 0

    def _ended(self, err: PlimsollError) -> Program[LeaseLost | None]:
        """Look how it ended that is kept no longer."""
        try:
            return self._over((yield from self._core.get(by_id(self.admission.id))))
        except PlimsollError:
            return LeaseLost(self.admission, str(err))

    def _over(self, kept: Admission) -> LeaseLost | None:
        """Judge an end. A sandbox that ran and ended by itself, by its host's word, is none that was lost."""
        if kept.state == "released" and kept.host and kept.started_at:
            return None
        why = f"it is {kept.state}"
        if kept.alive:
            why = f"it was placed anew at epoch {kept.epoch}, and was admitted at {self.admission.epoch}"
        return LeaseLost(kept, f"{why}: {kept.reason}" if kept.reason else why)
