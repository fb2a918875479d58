"""The README's examples, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from stage import Stage

README = Path(__file__).resolve().parents[1] / "README.md"


def examples() -> list[str]:
    """Return each piece of Python in the README."""
    return re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def first_example() -> str:
    """Return the first one."""
    return examples()[0]


def here(code: str, stage: Stage) -> str:
    """Let an example speak to the stage, and ask for its class."""
    return code.replace("http://127.0.0.1:7070", stage.addresses()[0]).replace(
        '"agent"', f'"{stage.note["class"]}"'
    )


def run(code: str, stage: Stage) -> tuple[list[str], list[Any]]:
    """Run an example: what it booted, and what it parked."""
    stage.post("/begin", {"name": "a yes at once"})
    booted: list[str] = []
    parked: list[Any] = []
    names = {
        "token": stage.token(),
        "boot": booted.append,
        "park": lambda *what: parked.append(what),
    }
    exec(compile(here(code, stage), str(README), "exec"), names)  # noqa: S102 - our own
    return booted, parked
