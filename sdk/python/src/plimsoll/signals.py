"""Give back what is held when the process is told to end. Opt-in: nothing here runs by itself.

    client = Client(address, token)
    release_on_exit(client)

SIGINT already unwinds `with` blocks, as a KeyboardInterrupt; SIGTERM does not unless it becomes an
exception too. In asyncio, `asyncio.run` turns SIGINT into a cancellation; `cancel_on` does so for
SIGTERM. Against SIGKILL nothing helps: without heartbeats what was held ends by itself.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import FrameType

from .client import Client

__all__ = ["Terminated", "cancel_on", "release_on_exit"]


class Terminated(SystemExit):
    """A signal, as an exception: unwinds the main thread's blocks, and exits with 128 + its number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def release_on_exit(client: Client, signals: Iterable[int] = (signal.SIGTERM,)) -> None:
    """Turn signals into an exception in the main thread, and give back at exit what is still held.

    The exception unwinds the main thread's `with` blocks. What other threads hold then, in blocks that
    nobody unwinds, is given back by a handler of atexit. Call it from the main thread. A signal that has
    a handler already keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("release_on_exit: Python hears signals in the main thread only; call it there")
    for number in signals:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    atexit.register(client.release_held)


def _terminate(number: int, _: FrameType | None) -> None:
    raise Terminated(number)


@asynccontextmanager
async def cancel_on(*signals: int) -> AsyncIterator[None]:
    """Cancel the task that entered this block when a signal comes, SIGTERM if none is named.

    The cancellation unwinds the task's blocks, so that each hold is given back. It leaves the block as
    asyncio.CancelledError.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("cancel_on: there is no task to cancel here")
    heard = signals or (signal.SIGTERM,)
    for number in heard:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
