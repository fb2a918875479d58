"""The dispatcher against a real Plimsoll: killed anywhere, and nothing is written down as failed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from dispatcher.jobs import Job, Jobs
from dispatcher.words import ordinal, where

from .account import HERE, Account, eventually

PATH = ["submitted", "waiting_capacity", "admitted", "running", "finished", "released"]


@contextmanager
def file_of(db: Path) -> Iterator[Jobs]:
    with closing(Jobs(db)) as jobs:
        yield jobs


def start(account: Account, db: Path, *words: str, crash: str = "") -> subprocess.Popen[str]:
    module = ["tests.crashing", crash, "--"] if crash else ["dispatcher"]
    token = account.folder / "ci.token"
    where_ = ["--server", account.server, "--provider", account.provider, "--token-file", str(token)]
    argv = [sys.executable, "-m", *module, "--db", str(db), "run", *where_, *words]
    return subprocess.Popen(argv, cwd=HERE, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    said, _ = process.communicate(timeout=40)
    assert process.returncode == status, said
    return said


def test_killed_at_each_step(tmp_path: Path) -> None:
    """One build, and a kill before and after each write: it is booted once, and its slot comes back."""
    db = tmp_path / "ci.db"
    with Account(tmp_path) as account, file_of(db) as jobs:
        jobs.submit("build-1", "ci-browser", 100)
        for state in PATH[1:]:
            for point in (f"before:{state}", f"after:{state}"):
                finish(start(account, db, "--until-idle", crash=point), -signal.SIGKILL)
        finish(start(account, db, "--until-idle"))
        assert jobs.steps("build-1") == PATH
        count = account.count()
        assert (count["boots"], count["refused"], count["at_limit"]) == (1, {}, 0)
        assert account.pool("browser")["busy"] == 0


def test_a_line_outlives_the_dispatcher(tmp_path: Path) -> None:
    """Thirteen builds, four slots: nine wait, each at its place, also after a kill; and all are done."""
    db = tmp_path / "ci.db"
    with Account(tmp_path) as account, file_of(db) as jobs:
        names = [f"build-{n}" for n in range(1, 14)]
        for name in names:
            jobs.submit(name, "ci-browser", 60_000)

        def line() -> dict[str, int]:
            return {job.id: job.position for job in jobs.all() if job.position}

        first = start(account, db)
        eventually("nine to wait", lambda: sorted(line().values()) == list(range(1, 10)))
        before = line()
        assert before == {name: place for place, name in enumerate(names[4:], 1)}
        first.kill()
        first.communicate()
        for name in before:
            jobs.stands(name, None, None)
        second = start(account, db)
        eventually("nine to wait again", lambda: len(line()) == len(before))
        assert line() == before
        fourth = next(jobs.get(name) for name, position in before.items() if position == 4)
        assert where(fourth, jobs.all()).startswith("4th of 9")

        def all_over() -> bool:
            for job in jobs.open():
                if job.state == "running":  # its container ends sooner than it would
                    httpx.delete(f"{account.provider}/containers/{job.container}")
            return not jobs.open()

        eventually("all to be over", all_over)
        second.terminate()
        assert "stopped" in finish(second)
        assert all(jobs.steps(name) == PATH for name in names)
        count = account.count()
        assert (count["boots"], count["peak"], count["at_limit"]) == (13, 4, 0)
        assert account.pool("browser")["busy"] == 0


def test_nobody_there_is_no_failure(tmp_path: Path) -> None:
    """Without a gate builds wait; they are done when it is back."""
    db = tmp_path / "ci.db"
    account = Account(tmp_path)
    with account:
        pass  # the tokens are made
    with file_of(db) as jobs:
        jobs.submit("build-1", "ci-lean", 50)
        jobs.submit("typo", "ci-leen", 50)
        process = start(account, db, "--until-idle")
        eventually("it to wait", lambda: jobs.get("build-1").state == "waiting_capacity")
        with account:
            finish(process)
        assert jobs.steps("build-1") == PATH
        assert jobs.steps("typo") == ["submitted", "waiting_capacity", "rejected"]
        assert jobs.get("typo").note.startswith("unknown_class")


def test_what_is_gone_need_not_be_given_back(tmp_path: Path) -> None:
    """A build that had ended long ago, by a gate that has forgotten it, is over and not rejected."""
    db = tmp_path / "ci.db"
    with Account(tmp_path) as account, file_of(db) as jobs:
        jobs.submit("build-1", "ci-lean", 50)
        jobs.becomes("build-1", "finished", epoch=7)
        finish(start(account, db, "--until-idle"))
        assert jobs.steps("build-1")[-2:] == ["finished", "released"]


def test_no_ticket_no_boot(tmp_path: Path) -> None:
    """The provider boots nothing by no ticket, by one that is made up, or by another's key."""
    with Account(tmp_path) as account:
        for ticket in ("", "plm1.made-up"):
            answer = httpx.put(f"{account.provider}/containers/x", json={"ticket": ticket, "run_ms": 1})
            assert (answer.status_code, answer.json()["code"]) == (403, "ticket_rejected")
        assert account.count()["boots"] == 0


def test_a_failure_cannot_be_written(tmp_path: Path) -> None:
    with file_of(tmp_path / "ci.db") as jobs:
        jobs.submit("build-1", "ci-lean", 1)
        with pytest.raises(sqlite3.IntegrityError):
            jobs.becomes("build-1", "failed")
        assert jobs.steps("build-1") == ["submitted"]


def test_words() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]
    )
    job = Job("a", "c", 1, "waiting_capacity", None, 2, None, "", 0)
    assert where(job, [job]) == "2nd of 2"
