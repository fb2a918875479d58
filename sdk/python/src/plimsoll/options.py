"""What one asks for, and how one waits for it: the keyword arguments of `admit`, `hold` and `resume`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from .backoff import MS, SECOND, Policy
from .errors import NotNow
from .wire import Admission, Waiting

OnProgress = Callable[[Waiting], object]
OnRetry = Callable[[NotNow, float], object]
OnAdmitted = Callable[[Admission, int, float | None], object]


class HostPin(TypedDict):
    """A wish for one host. Only for consumers that are allowed to pin."""

    id: str
    mode: Literal["require", "prefer"]


class WaitOptions(TypedDict, total=False):
    """How a call waits; see `Patience` for the defaults."""

    deadline: float
    on_progress: OnProgress | None
    on_retry: OnRetry | None
    on_admitted: OnAdmitted | None
    give_up_place: bool
    keep_place: bool


class AskOptions(WaitOptions, total=False):
    """What is asked for; see `Ask` for the defaults."""

    key: str | None
    tenant: str | None
    mode: Literal["refuse", "queue"]
    max_queue_age: float | None
    memory_mb: int | None
    cpu: float | None
    template: str | None
    labels: Mapping[str, str] | None
    host: HostPin | None
    receipt: str | None


@dataclass(frozen=True)
class Patience:
    """How a call waits. Times are in seconds.

    deadline: patience as a whole; 0 asks once.
    on_progress: hears of the place in the queue each time that the server tells it. With it the server
        is asked every 5 s; without it, shortly before the turn that it tells.
    on_retry: hears why, and in how many seconds, the client asks again. Not called for waits in the queue.
    on_admitted: hears of the yes: the admission, the number of calls that it took, and the seconds since
        the first refusal (or since the place was taken), None where the first call was a yes.
    give_up_place: give the place in the queue up when patience ends; else it is kept.
    keep_place: keep what was asked for when the call is cancelled; else it is given back.
    """

    deadline: float = 90.0
    on_progress: OnProgress | None = None
    on_retry: OnRetry | None = None
    on_admitted: OnAdmitted | None = None
    give_up_place: bool = False
    keep_place: bool = False


@dataclass(frozen=True)
class Pace:
    """How a client asks again, in seconds.

    base, cap: the first window of the jitter, and the widest.
    timeout: how long an answer may take, beyond what a long poll is held.
    """

    base: float = 0.25
    cap: float = 8.0
    timeout: float = 15.0

    def policy(self, deadline: int, widest: int | None = None) -> Policy:
        """Return the pace of tries within so many nanoseconds."""
        cap = round(self.cap * SECOND)
        return Policy(round(self.base * SECOND), min(cap, widest) if widest else cap, max(deadline, 1))


@dataclass(frozen=True)
class Ask:
    """What one execution asks for, by the fields of AdmissionRequest.

    key: the caller's own name for it; a random one by default. The same key is the same admission.
    mode: what a no should become: an error after patience, or a place in the queue.
    max_queue_age: in queue mode, how many seconds to wait in all calls together.
    receipt: of the last refusal of this request, if another call made it.
    """

    class_: str
    key: str | None = None
    tenant: str | None = None
    mode: Literal["refuse", "queue"] = "refuse"
    max_queue_age: float | None = None
    memory_mb: int | None = None
    cpu: float | None = None
    template: str | None = None
    labels: Mapping[str, str] | None = None
    host: HostPin | None = None
    receipt: str | None = None

    def body(self, key: str) -> dict[str, Any]:
        """Return it as it is sent."""
        age = None if self.max_queue_age is None else round(self.max_queue_age * SECOND) // MS
        fields = {
            "key": key,
            "class": self.class_,
            "tenant": self.tenant,
            "mode": self.mode,
            "max_queue_age_ms": age,
            "memory_mb": self.memory_mb,
            "cpu": self.cpu,
            "template": self.template,
            "labels": self.labels,
            "host": self.host,
            "receipt": self.receipt,
        }
        return {name: value for name, value in fields.items() if value is not None}


def split(class_: str, options: Mapping[str, Any]) -> tuple[Ask, Patience]:
    """Part keyword arguments into what is asked for and how one waits. A wrong one is a TypeError."""
    waits = {name: value for name, value in options.items() if name in WaitOptions.__annotations__}
    return Ask(class_, **{n: v for n, v in options.items() if n not in waits}), Patience(**waits)


def new_key() -> str:
    """Make a key that nobody else has: k- and 26 of a-z2-7."""
    return "k-" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(26))
