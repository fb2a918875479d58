"""The dispatcher, but killed at one of its writes: python -m tests.crashing before:running -- ARGUMENTS."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from dispatcher import __main__ as program
from dispatcher.jobs import Job, Jobs

POINT = sys.argv[1]


class Crashing(Jobs):
    """Ends this process as nothing else does, just before or just after a state is on the disk."""

    def becomes(self, id_: str, state: str, **more: Any) -> Job:
        """Write a build's next state, or die of it."""
        if f"before:{state}" == POINT:
            os.kill(os.getpid(), signal.SIGKILL)
        job = super().becomes(id_, state, **more)
        if f"after:{state}" == POINT:
            os.kill(os.getpid(), signal.SIGKILL)
        return job


if __name__ == "__main__":
    setattr(program, "Jobs", Crashing)  # noqa: B010 - the name is that module's own business
    sys.exit(program.main(sys.argv[3:]))
