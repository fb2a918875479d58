"""The provider's API, as far as a dispatcher needs it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx


class TicketRefused(Exception):
    """The provider boots nothing by this ticket."""


class ProviderAway(Exception):
    """The provider did not answer, or could not have the ticket redeemed. Ask again."""


class Provider:
    """Boots containers, each by a ticket of the gate."""

    def __init__(self, address: str) -> None:
        self._http = httpx.AsyncClient(base_url=address, timeout=20)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def boot(self, name: str, ticket: str, run_ms: int) -> None:
        """Boot a container. The same name again is the same container, so it may be asked twice."""
        answer = await self._call("PUT", name, {"ticket": ticket, "run_ms": run_ms})
        if answer.status_code == httpx.codes.FORBIDDEN:
            raise TicketRefused(answer.json()["detail"])
        if not answer.is_success:
            raise ProviderAway(answer.text)

    async def state(self, name: str) -> str | None:
        """Look at a container: running, exited, or None where there is none."""
        answer = await self._call("GET", name)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if not answer.is_success:
            raise ProviderAway(answer.text)
        state: str = answer.json()["state"]
        return state

    async def stop(self, name: str) -> None:
        """Stop a container, if it is there."""
        answer = await self._call("DELETE", name)
        if not answer.is_success:
            raise ProviderAway(answer.text)

    async def _call(self, method: str, name: str, body: object = None) -> httpx.Response:
        try:
            return await self._http.request(method, f"/containers/{name}", json=body)
        except httpx.HTTPError as err:
            raise ProviderAway(str(err)) from err
