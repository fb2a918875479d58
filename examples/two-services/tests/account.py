"""The account as the tests have it: `try`, in a folder and at ports of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

HERE = Path(__file__).resolve().parent.parent


def free_address() -> str:
    """Find an address of this machine that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


class Account:
    """Plimsoll and the provider, while the `with` block lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listen, self.provider_listen = free_address(), free_address()
        self.server, self.provider = f"http://{self.listen}", f"http://{self.provider_listen}"
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, with what an earlier start left in its folder."""
        self.process = subprocess.Popen(
            [str(HERE / "try"), str(self.folder)],
            env={**os.environ, "LISTEN": self.listen, "PROVIDER_LISTEN": self.provider_listen},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert "the account is up" in line, line + self.said()

    def stop(self) -> None:
        """Stop it."""
        if self.process is None:
            return
        self.process.communicate(timeout=20)
        self.process = None

    def said(self) -> str:
        """Return what both have logged."""
        logs = [self.folder / "plimsoll.log", self.folder / "provider.log"]
        return "\n".join(log.read_text() for log in logs if log.exists())

    def token(self, consumer: str) -> str:
        """Return a consumer's token."""
        return (self.folder / f"{consumer}.token").read_text().strip()

    def count(self) -> dict[str, Any]:
        """Return what the provider counted."""
        count: dict[str, Any] = httpx.get(f"{self.provider}/account").raise_for_status().json()
        return count

    def pool(self, name: str, consumer: str = "ci") -> dict[str, Any]:
        """Return what a pool holds."""
        headers = {"Authorization": f"Bearer {self.token(consumer)}"}
        pools = httpx.get(f"{self.server}/v1/pools", headers=headers).raise_for_status().json()["pools"]
        found: dict[str, Any] = next(pool for pool in pools if pool["name"] == name)
        return found


def eventually(what: str, ok: Callable[[], object], within: float = 20) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within
    while not ok():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.02)
