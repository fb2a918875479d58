"""Says to people where a build stands: "4th of 9, about 2 min"."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .jobs import Job


def where(job: Job, jobs: Sequence[Job]) -> str:
    """Say where one of them stands."""
    match job.state:
        case "waiting_capacity" if job.position:
            line = sum(other.state == job.state and other.class_ == job.class_ for other in jobs)
            turn = f", about {roughly(job.turn_at - time.time())}" if job.turn_at else ""
            return f"{ordinal(job.position)} of {max(line, job.position)}{turn}"
        case "running":
            return f"for {roughly(time.time() - job.changed_at)}"
        case _:
            return job.note


def ordinal(n: int) -> str:
    """Write a place in a line."""
    if n % 100 in (11, 12, 13):
        return f"{n}th"
    return f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th') }"


def roughly(seconds: float) -> str:
    """Write a time as a person would."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min"
