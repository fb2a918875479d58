"""What outlives the dispatcher: its builds, and each state that one of them ever had."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id         TEXT PRIMARY KEY,
    class      TEXT NOT NULL,
    run_ms     INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN
               ('submitted', 'waiting_capacity', 'admitted', 'running', 'finished', 'released', 'rejected')),
    epoch      INTEGER,            -- of the admission, once there is one
    position   INTEGER,            -- in the line, as it was last told
    turn_at    REAL,               -- when its turn may be expected
    note       TEXT NOT NULL DEFAULT '',
    changed_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS steps (
    job   TEXT NOT NULL REFERENCES jobs (id),
    at    REAL NOT NULL,
    state TEXT NOT NULL
);
"""

OVER = ("released", "rejected")
COLUMNS = "id, class, run_ms, state, epoch, position, turn_at, note, changed_at"


@dataclass(frozen=True)
class Job:
    """One build."""

    id: str
    class_: str
    run_ms: int
    state: str
    epoch: int | None
    position: int | None
    turn_at: float | None
    note: str
    changed_at: float

    @property
    def key(self) -> str:
        """Name its admission: the same over all crashes, so that it is asked for once."""
        return f"build:{self.id}"

    @property
    def container(self) -> str:
        """Name its container: one for each admission that it had."""
        return f"{self.id}.{self.epoch}"


class Jobs:
    """The file of builds. Each call is one transaction, and is on the disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def submit(self, id_: str, class_: str, run_ms: int) -> bool:
        """Note a build that is to be done; False where it was noted before."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            made = self._db.execute(
                "INSERT INTO jobs (id, class, run_ms, state, changed_at) VALUES (?, ?, ?, 'submitted', ?)"
                " ON CONFLICT DO NOTHING",
                (id_, class_, run_ms, time.time()),
            )
            if made.rowcount:
                self._step(id_, "submitted")
        return bool(made.rowcount)

    def becomes(self, id_: str, state: str, *, epoch: int | None = None, note: str = "") -> Job:
        """Write a build's next state."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "UPDATE jobs SET state = ?, epoch = coalesce(?, epoch), position = NULL, turn_at = NULL,"
                " note = ?, changed_at = ? WHERE id = ?",
                (state, epoch, note, time.time(), id_),
            )
            self._step(id_, state)
        return self.get(id_)

    def stands(self, id_: str, position: int | None, turn_in: float | None, note: str = "") -> None:
        """Note where a build that waits is in its line. That is no change of state."""
        turn_at = None if turn_in is None else time.time() + turn_in
        self._db.execute(
            "UPDATE jobs SET position = ?, turn_at = ?, note = ? WHERE id = ?", (position, turn_at, note, id_)
        )

    def get(self, id_: str) -> Job:
        """Read one build."""
        with closing(self._db.execute(f"SELECT {COLUMNS} FROM jobs WHERE id = ?", (id_,))) as rows:  # noqa: S608
            return Job(*rows.fetchone())

    def all(self) -> list[Job]:
        """Read all builds, as they were submitted."""
        with closing(self._db.execute(f"SELECT {COLUMNS} FROM jobs ORDER BY rowid")) as rows:  # noqa: S608
            return [Job(*row) for row in rows]

    def open(self) -> list[Job]:
        """Read those that are not over."""
        return [job for job in self.all() if job.state not in OVER]

    def steps(self, id_: str) -> list[str]:
        """Read each state that a build ever had."""
        with closing(
            self._db.execute("SELECT state FROM steps WHERE job = ? ORDER BY rowid", (id_,))
        ) as rows:
            return [state for (state,) in rows]

    def _step(self, id_: str, state: str) -> None:
        self._db.execute("INSERT INTO steps (job, at, state) VALUES (?, ?, ?)", (id_, time.time(), state))
