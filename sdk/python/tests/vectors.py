"""The files that every SDK is tested against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def load(path: str) -> Any:
    """Read a file of the repository."""
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def cases(name: str) -> list[Any]:
    """Return the cases of a vector file: there is at least one."""
    found: list[Any] = load(f"sdk/vectors/{name}.json")["cases"]
    assert found
    return found


def named(case: Any) -> str:
    """Name a case in pytest's output."""
    return str(case.get("name") or json.dumps(case))
