"""What several tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage import Stage, standing


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """One stage for all tests."""
    with standing() as up:
        yield up
