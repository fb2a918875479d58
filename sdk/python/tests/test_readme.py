"""What the README shows works, against a real replica."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import Any

import pytest
from readme import examples, first_example, here, run
from stage import Stage

from plimsoll import AsyncClient, Client, NotNow


def test_the_first_example_boots(stage: Stage) -> None:
    booted, parked = run(first_example(), stage)
    assert len(booted) == 1
    assert booted[0].startswith("plm1.")
    assert parked == []


def test_the_first_example_parks_what_is_not_now(stage: Stage) -> None:
    stage.post("/begin", {"name": "no patience asks once"})  # a full pool
    parked: list[Any] = []
    names = {"token": stage.token(), "boot": pytest.fail, "park": lambda *what: parked.append(what)}
    code = here(first_example(), stage).replace("deadline=300", "deadline=0")
    exec(code, names)  # noqa: S102 - our own
    ((key, state, retry_after),) = parked
    assert key.startswith("k-")
    assert state == "waiting_capacity"
    assert retry_after is None or retry_after > 0


@pytest.mark.parametrize("code", examples()[4:])
def test_the_others_name_what_there_is(code: str) -> None:
    for line in code.splitlines():
        if line.startswith("from plimsoll"):
            exec(line, {})  # noqa: S102 - our own
    compile(code, "README.md", "exec")


def test_a_no_is_told_with_its_figures(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.post("/begin", {"name": "no patience asks once"})
    with Client(stage.addresses(), stage.token()) as client:
        exec(here(examples()[1], stage), {"client": client, "NotNow": NotNow})  # noqa: S102 - our own
    assert "pool_full: 1 of 1 slots of browsers are busy; again in" in capsys.readouterr().out


def test_waiting_is_shown(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.post("/begin", {"name": "the queue is waited in"})
    with Client(stage.addresses(), stage.token()) as client:
        exec(here(examples()[2], stage), {"client": client})  # noqa: S102 - our own
    said = capsys.readouterr().out
    assert "1 in line, about" in said
    assert "s after the first no" in said


def test_the_asynchronous_example(stage: Stage) -> None:
    stage.post("/begin", {"name": "a yes at once"})
    worked: list[str] = []

    async def work(ticket: str) -> None:
        worked.append(ticket)

    code = here(examples()[3], stage)
    names = {"AsyncClient": AsyncClient, "token": stage.token(), "work": work}
    asyncio.run(eval(compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names))  # noqa: S307
    assert worked[0].startswith("plm1.")


def test_what_was_told_is_explained(stage: Stage) -> None:
    stage.post("/begin", {"name": "no patience asks once"})
    with Client(stage.addresses(), stage.token()) as client:
        with pytest.raises(NotNow) as told:
            client.admit(stage.note["class"], deadline=0)
        said = client.explain(told.value.decision_id)
        assert said.id == told.value.decision_id
        assert said.told.status == 503
        assert said.line
        assert [one.id for one in client.decisions(told.value.key)] == [said.id]


def offered(kind: type) -> dict[str, str]:
    methods = {name: one for name, one in vars(kind).items() if not name.startswith("_") and callable(one)}
    said = {name: str(inspect.signature(one)).replace("Async", "") for name, one in methods.items()}
    # What cancels a blocking call is an event; asyncio has its own.
    return {
        name: text.replace("*, cancel: 'threading.Event | None' = None, ", "") for name, text in said.items()
    }


def test_both_clients_offer_the_same() -> None:
    blocking, asynchronous = offered(Client), offered(AsyncClient)
    assert blocking.pop("close")
    assert asynchronous.pop("aclose")
    assert blocking.pop("release_held")
    assert blocking == asynchronous
