"""The types here are those of the contract, api/openapi.yaml."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from vectors import ROOT

from plimsoll import Admission, Ask, Change, Decision, Figures, ShareStanding
from plimsoll.wire import (
    DecisionAsk,
    DecisionEvent,
    DecisionExclusion,
    DecisionList,
    DecisionTold,
    MalformedError,
    decode,
)

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT = (ROOT / "api/openapi.yaml").read_text(encoding="utf-8")
CONTRACT: dict[str, Any] = yaml.load(TEXT, LOADER)  # noqa: S506 - either loader is a safe one
SCHEMAS: dict[str, Any] = CONTRACT["components"]["schemas"]
KINDS = [
    Admission,
    Change,
    Decision,
    DecisionAsk,
    DecisionEvent,
    DecisionExclusion,
    DecisionList,
    DecisionTold,
]
ODD: list[Any] = ["1", True, 1.5, [], {}]
WRONG: list[Any] = [{}, [], None, {"reserved": 1}, *({"reserved": one, "held": 1} for one in ODD)]


def names(kind: Any) -> set[str]:
    return {field.name.rstrip("_") for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_here(kind: Any) -> None:
    schema = SCHEMAS[kind.__name__]
    assert names(kind) == set(schema["properties"])
    needed = {f.name.rstrip("_") for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
    assert needed == set(schema["required"])


def test_every_figure_of_a_problem_is_here() -> None:
    elsewhere = {"type", "title", "status", "detail", "code", "scope", "retryable", "decision_id", "remedy"}
    elsewhere |= {"retry_after_ms", "receipt", "id", "reason", "errors"}
    assert names(Figures) == set(SCHEMAS["Problem"]["properties"]) - elsewhere


def test_every_field_of_a_request_can_be_said() -> None:
    asked = Ask("build", "k", "t", "queue", 1.5, 1, 0.5, "x", {"a": "b"}, {"id": "h", "mode": "prefer"}, "r")
    assert set(asked.body("k")) == set(SCHEMAS["AdmissionRequest"]["properties"])
    assert asked.body("k")["max_queue_age_ms"] == 1500
    assert Ask("build").body("k") == {"key": "k", "class": "build", "mode": "refuse"}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_of_its_shape_is_refused(wrong: Any) -> None:
    with pytest.raises(MalformedError):
        decode(ShareStanding, wrong)


def test_what_a_newer_server_says_is_dropped() -> None:
    assert decode(ShareStanding, {"reserved": 1, "held": 0, "news": [], "max": None}) == ShareStanding(1, 0)
