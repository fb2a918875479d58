"""The gate of whoever boots what a pool without hosts admits (`placement: none`).

    keys = AudienceKeys.parse(file)   # made by: plimsoll keyring audience NAME
    gate = Gate(client, keys)
    admitted = gate.redeem(text, instance)   # anything but a return boots nothing
    boot(admitted.memory_mb)

`verify` judges a ticket here, without a call: what is missing, malformed, forged, for another audience,
or past its end by more than 30 s of this clock. What only the store knows, that it was released,
placed anew or used before, `redeem` asks: once, before the boot. The same instance may ask again, so
that a lost answer costs no boot; so an instance must be booted by its own redemption alone.

It decides nothing about capacity. Whoever holds the keys can forge tickets, for this audience alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from ._calls import fault
from .aio import AsyncClient
from .client import Client
from .errors import TicketRejected
from .ticket import AudienceKeys, Claims, Expect, inspect
from .wire import Redemption

__all__ = ["AsyncGate", "AudienceKeys", "Claims", "Expect", "Gate", "inspect"]


class _Gate:
    def __init__(self, keys: AudienceKeys, now: Callable[[], datetime] | None = None) -> None:
        self.keys = keys
        """Replaced as a step of their rotation. Until a new key is here, `verify` calls its tickets
        forged, and `redeem` leaves them to the replica."""
        self._now = now or (lambda: datetime.now(UTC))

    def verify(self, ticket: str, expect: Expect | None = None) -> Claims:
        """Judge a ticket here, and return what it claims; raise TicketRejected.

        What passes may have been released or used before: only `redeem` knows.
        """
        expect = expect or Expect()
        return self.keys.verify(ticket, expect if expect.now else replace(expect, now=self._now()))

    def _claims(self, ticket: str, instance: str) -> Claims:
        if not instance:
            raise ValueError("redeem: name the instance that is to boot, and the same when asking again")
        try:
            return self.verify(ticket)
        except TicketRejected:
            said = inspect(ticket)
            if said is None or not self._cannot_judge(said):
                raise
            return said

    def _cannot_judge(self, said: Claims) -> bool:
        """Say whether a ticket for this audience names a key that is not held here yet.

        The replica that redeems it has every key, so a rotation that this gate lags behind refuses no boot.
        """
        return said.audience == self.keys.audience and said.key_id not in self.keys.key_ids


def _matching(claims: Claims, redeemed: Redemption) -> Redemption:
    if (redeemed.id, redeemed.epoch) != (claims.admission_id, claims.epoch):
        raise fault(f"redeem: the answer is about {redeemed.id}, and the ticket about {claims.admission_id}")
    return redeemed


class Gate(_Gate):
    """Stands before every boot of one audience.

    The client's token is that of a consumer with the role substrate and this audience.
    """

    def __init__(
        self, client: Client, keys: AudienceKeys, *, now: Callable[[], datetime] | None = None
    ) -> None:
        super().__init__(keys, now)
        self._client = client

    def redeem(self, ticket: str, instance: str) -> Redemption:
        """Verify a ticket and give it up for one boot, which may begin when this returns.

        TicketRejected is final for this ticket. Anything else that is raised is not now: boot nothing, and
        ask again with the same instance.
        """
        claims = self._claims(ticket, instance)
        return _matching(claims, self._client.redeem(ticket, instance))


class AsyncGate(_Gate):
    """The same for asyncio."""

    def __init__(
        self, client: AsyncClient, keys: AudienceKeys, *, now: Callable[[], datetime] | None = None
    ) -> None:
        super().__init__(keys, now)
        self._client = client

    async def redeem(self, ticket: str, instance: str) -> Redemption:
        """Verify a ticket and give it up for one boot, which may begin when this returns.

        TicketRejected is final for this ticket. Anything else that is raised is not now: boot nothing, and
        ask again with the same instance.
        """
        claims = self._claims(ticket, instance)
        return _matching(claims, await self._client.redeem(ticket, instance))
