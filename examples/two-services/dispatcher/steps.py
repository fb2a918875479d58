"""Leads each build from one durable step to the next.

What a step does is safe to do twice, for it may have been done just before a crash: a key names one
admission, a name one container, and a release is a release. So a step is written down after it was done.
Only `waiting_capacity` is written before the gate is asked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from plimsoll import (
    Admission,
    AsyncClient,
    Internal,
    Never,
    NotAllowed,
    NotNow,
    PlimsollError,
    StillWaiting,
    Waiting,
)

from .jobs import OVER, Job, Jobs
from .provider import Provider, ProviderAway, TicketRefused

# One step waits so long in the line. Its place is kept between two, and over a crash.
STEP = 25.0
# How long a build may wait in all before it takes a new place.
MAX_QUEUE_AGE = 3600.0
LOOK = 0.25


class Dispatcher:
    """Runs all builds that are not over, one task each."""

    def __init__(
        self, jobs: Jobs, gate: AsyncClient, provider: Provider, told: Callable[[Job], None] = lambda _: None
    ) -> None:
        self._jobs = jobs
        self._gate = gate
        self._provider = provider
        self._told = told
        self._pause = 0.5
        self._order = asyncio.Lock()

    async def run(self, *, until_idle: bool = False) -> None:
        """Lead builds on, also those that are submitted meanwhile; with until_idle until all are over."""
        tasks: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                waiting = self._jobs.open()
                for job in waiting:
                    if job.id not in tasks:
                        tasks[job.id] = group.create_task(self._lead(job))
                if until_idle and not waiting:
                    return
                await asyncio.sleep(LOOK)

    async def _lead(self, job: Job) -> None:
        while job.state not in OVER:
            try:
                job = await self._step(job)
            except (NotNow, Internal, ProviderAway) as tempo:
                # Not now, or a fault of somebody else's: it is where it was, and goes on from there.
                hint = tempo.retry_after if isinstance(tempo, PlimsollError) else None
                self._jobs.stands(job.id, None, hint, str(tempo))
                await asyncio.sleep((hint or 0) + random.uniform(0, self._pause))  # noqa: S311
                job = self._jobs.get(job.id)
            except (Never, NotAllowed) as no:
                job = self._jobs.becomes(job.id, "rejected", note=str(no))
            self._told(job)

    async def _step(self, job: Job) -> Job:
        match job.state:
            case "submitted":
                return await self._line_up(job)
            case "waiting_capacity":
                return await self._ask(job)
            case "admitted":
                return await self._boot(job)
            case "running":
                return await self._watch(job)
            case _:
                return await self._give_back(job)

    async def _line_up(self, job: Job) -> Job:
        """Take a place in the line, one build after the other, so that they stand as they were submitted."""
        async with self._order:
            job = self._jobs.becomes(job.id, "waiting_capacity")
            try:
                admission = await self._admit(job, 0)
            except StillWaiting:
                return job
        return self._jobs.becomes(job.id, "admitted", epoch=admission.epoch)

    async def _ask(self, job: Job) -> Job:
        """Go on with the place, or take one, and wait there for one step."""

        def progress(w: Waiting) -> None:
            self._jobs.stands(job.id, w.position, w.retry_after_ms / 1000, f"waits for a {w.waiting_for}")
            self._told(self._jobs.get(job.id))

        try:
            admission = await self._admit(job, STEP, progress)
        except StillWaiting:
            return self._jobs.get(job.id)
        return self._jobs.becomes(job.id, "admitted", epoch=admission.epoch)

    async def _admit(
        self, job: Job, deadline: float, progress: Callable[[Waiting], None] | None = None
    ) -> Admission:
        """Ask for the build's admission, for the first time or again: its key makes that the same."""
        return await self._gate.admit(
            job.class_,
            key=job.key,
            mode="queue",
            max_queue_age=MAX_QUEUE_AGE,
            deadline=deadline,
            keep_place=True,  # also when this process is told to end
            on_progress=progress,
        )

    async def _boot(self, job: Job) -> Job:
        """Take the ticket to the provider. It is not kept in the file: the same key gets it again."""
        if await self._provider.state(job.container) is not None:
            return self._jobs.becomes(job.id, "running")
        try:
            admission = await self._admit(job, 0)
        except StillWaiting:  # what was admitted has ended meanwhile, and this is a new place
            return self._jobs.becomes(job.id, "waiting_capacity")
        if admission.epoch != job.epoch:
            return self._jobs.becomes(job.id, "admitted", epoch=admission.epoch)
        try:
            await self._provider.boot(job.container, admission.ticket or "", job.run_ms)
        except TicketRefused as no:  # it is of no use any more: give it back, and ask anew
            await self._release(job)
            return self._jobs.becomes(job.id, "waiting_capacity", note=str(no))
        return self._jobs.becomes(job.id, "running")

    async def _watch(self, job: Job) -> Job:
        """Wait for the container's end, and keep the slot alive until then."""
        clock = asyncio.get_running_loop().time
        beat_at = clock()
        while True:
            state = await self._provider.state(job.container)
            if state is None:  # whoever ran it lost it: the build is done anew
                await self._release(job)
                return self._jobs.becomes(job.id, "waiting_capacity", note="its container was lost")
            if state != "running":
                return self._jobs.becomes(job.id, "finished")
            if clock() >= beat_at:
                try:
                    admission = await self._gate.heartbeat(job.key)
                except Never as over:  # the slot was lost, so the container must not run on
                    await self._provider.stop(job.container)
                    return self._jobs.becomes(job.id, "waiting_capacity", note=str(over))
                except PlimsollError as err:
                    self._jobs.stands(
                        job.id, None, None, f"the slot was not renewed, and is tried again: {err}"
                    )
                    beat_at = clock() + 1
                else:
                    beat_at = clock() + (admission.heartbeat_ms or 60_000) / 1000
            await asyncio.sleep(LOOK)

    async def _give_back(self, job: Job) -> Job:
        await self._provider.stop(job.container)
        await self._release(job)
        return self._jobs.becomes(job.id, "released")

    async def _release(self, job: Job) -> None:
        """Give back whatever the build's key stands for; that nothing does is as good."""
        try:
            await self._gate.release(job.key)
        except Never as no:
            if no.code != "not_found":
                raise
