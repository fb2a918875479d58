"""Ask Plimsoll for admission, wait for it, keep it and give it back.

    from plimsoll import Client, NotNow

    with Client("http://127.0.0.1:7070", token) as client:
        try:
            with client.hold("agent", mode="queue", deadline=300) as lease:
                boot(lease.ticket)
        except NotNow as no:
            park(no.key, "waiting_capacity", no.retry_after)

NotNow is a tempo, not a failure: never write it to a status column, and never run the work outside a
sandbox because of it.
"""

from ._version import __version__
from .aio import AsyncClient, AsyncLease
from .client import Canceled, Client, Lease
from .errors import (
    Internal,
    LeaseLost,
    Never,
    NotAllowed,
    NotNow,
    NotReleased,
    PlimsollError,
    QueueTimeout,
    Refusal,
    StillWaiting,
    TicketRejected,
    Unreachable,
)
from .options import Ask, HostPin, Pace, Patience, new_key
from .wire import Admission, Change, Decision, Figures, Redemption, ShareStanding, Waiting

__all__ = [
    "Admission",
    "Ask",
    "AsyncClient",
    "AsyncLease",
    "Canceled",
    "Change",
    "Client",
    "Decision",
    "Figures",
    "HostPin",
    "Internal",
    "Lease",
    "LeaseLost",
    "Never",
    "NotAllowed",
    "NotNow",
    "NotReleased",
    "Pace",
    "Patience",
    "PlimsollError",
    "QueueTimeout",
    "Redemption",
    "Refusal",
    "ShareStanding",
    "StillWaiting",
    "TicketRejected",
    "Unreachable",
    "Waiting",
    "__version__",
    "new_key",
]
