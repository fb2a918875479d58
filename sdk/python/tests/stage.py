"""The stage: a real replica, with faults in front of it, that judges what a caller did."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from vectors import ROOT


@dataclass(frozen=True)
class Stage:
    """Where it is, and who may ask."""

    note: dict[str, Any]

    def addresses(self, count: int = 1) -> list[str]:
        """Return so many of its addresses."""
        found: list[str] = self.note["addresses"]
        return found[:count]

    def token(self, whose: str = "caller") -> str:
        """Return a token."""
        return str(self.note["tokens"][whose])

    def post(self, path: str, body: Any) -> Any:
        """Speak to its control address."""
        answer = httpx.post(self.note["control"] + path, json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()


@contextmanager
def standing() -> Iterator[Stage]:
    """Bring it up: what PLIMSOLL_STAGE names, or by go run."""
    built = os.environ.get("PLIMSOLL_STAGE")
    command = [built] if built else ["go", "run", "./sdk/stage"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, "the stage did not come up"
            yield Stage(json.loads(line))
        finally:
            process.stdin.close()
            process.wait(30)
