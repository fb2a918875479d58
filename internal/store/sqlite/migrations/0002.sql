-- oldest_program: 1
-- Expand: the program before this one goes on working. New columns have defaults that mean
-- what it does, and no constraint forbids what it writes. That a waiter alone has memory set
-- aside (stand_at) is therefore not among them yet: that program keeps the column when it
-- moves a row on; whoever reads takes it for void then.

-- The oldest version whose program may run on this one; of version 1 its own.
ALTER TABLE schema_version ADD COLUMN oldest_program integer;

ALTER TABLE settings ADD COLUMN ceiling integer NOT NULL DEFAULT 0 CHECK (ceiling >= -1);

ALTER TABLE pools ADD COLUMN shares text NOT NULL DEFAULT '[]'; -- JSON
ALTER TABLE pools ADD COLUMN audience text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN slot_ttl_ms integer NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN ticket_ttl_ms integer NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_cap integer NOT NULL DEFAULT 0 CHECK (override_cap >= 0);
ALTER TABLE pools ADD COLUMN override_since integer NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_until integer NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_by text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN override_reason text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN touched_at integer NOT NULL DEFAULT 0; -- its admissions last changed: no later change is dated before that
ALTER TABLE pools ADD COLUMN freed integer NOT NULL DEFAULT 0; -- slots that its admissions gave back, ever

-- at is written by whoever proves that the store can be written; these two tell an outage.
ALTER TABLE pulse ADD COLUMN beat_at integer NOT NULL DEFAULT 0;
ALTER TABLE pulse ADD COLUMN heard_since integer NOT NULL DEFAULT 0;

ALTER TABLE hosts ADD COLUMN heard_at integer NOT NULL DEFAULT 0;

CREATE TABLE audit (
    id      integer PRIMARY KEY,
    done_at integer NOT NULL,
    done_by text    NOT NULL,
    what    text    NOT NULL,
    reason  text    NOT NULL
);

CREATE TABLE replicas (
    id       text    PRIMARY KEY,
    address  text    NOT NULL,
    version  text    NOT NULL,
    key_ids  text    NOT NULL,
    heard_at integer NOT NULL
) WITHOUT ROWID;

-- SQLite changes a table's constraints by making it anew.
CREATE TABLE admissions_2 (
    id               text    NOT NULL PRIMARY KEY,
    consumer         text    NOT NULL,
    key              text    NOT NULL,
    tenant           text    NOT NULL,
    class            text    NOT NULL,
    template         text    NOT NULL,
    memory_mb        integer NOT NULL,
    cpu_milli        integer NOT NULL,
    labels           text    NOT NULL,
    pinned_host      text    NOT NULL,
    prefer           integer NOT NULL,
    stateful         integer NOT NULL,
    hold_on_exit     integer NOT NULL DEFAULT 0,
    priority         integer NOT NULL DEFAULT 0,
    pool             text    NOT NULL,
    mode             text    NOT NULL CHECK (mode IN ('refuse', 'queue')),
    max_queue_age_ms integer NOT NULL,
    state            text    NOT NULL CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing',
                                                       'released', 'timed_out', 'expired', 'evicted', 'lost')),
    reason           text    NOT NULL,
    gen              integer NOT NULL,
    epoch            integer NOT NULL,
    host             text    NOT NULL,
    audience         text    NOT NULL DEFAULT '',
    instance         text    NOT NULL DEFAULT '',
    place            integer NOT NULL,
    waited           integer NOT NULL,
    late             integer NOT NULL,
    spared_at        integer NOT NULL,
    waiting_for      text    NOT NULL,
    queued_at        integer NOT NULL,
    present_until    integer NOT NULL,
    hostless_at      integer NOT NULL,
    hostless_since   integer NOT NULL DEFAULT 0,
    stand_at         text    NOT NULL DEFAULT '',
    placing_at       integer NOT NULL,
    admitted_at      integer NOT NULL,
    reserved_until   integer NOT NULL,
    live_until       integer NOT NULL DEFAULT 0,
    running_at       integer NOT NULL,
    freed_at         integer NOT NULL,
    ended_at         integer NOT NULL,

    CONSTRAINT one_admission_a_key UNIQUE (consumer, key),
    CONSTRAINT held_by_somebody CHECK ((state IN ('admitted', 'running', 'releasing')) = (host <> '' OR audience <> '')),
    CONSTRAINT held_once CHECK (host = '' OR audience = ''),
    CONSTRAINT epoch_when_held CHECK ((host = '' AND audience = '') OR epoch > 0),
    CONSTRAINT lives_by_being_heard_of CHECK (audience = '' OR live_until > 0),
    CONSTRAINT released_by_a_host CHECK (state <> 'releasing' OR audience = ''),
    CONSTRAINT generation_not_below_epoch CHECK (gen >= epoch),
    CONSTRAINT placing_at_a_generation CHECK (state <> 'placing' OR gen > 0),
    CONSTRAINT waiting_at_a_place CHECK (state <> 'waiting_capacity' OR (mode = 'queue' AND place > 0 AND waiting_for <> '')),
    CONSTRAINT ended_out_of_line CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing')
                                        OR (ended_at > 0 AND place = 0)),
    CONSTRAINT running_since CHECK (state <> 'running' OR running_at > 0)
);

INSERT INTO admissions_2 (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful, pool,
    mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late, spared_at, waiting_for, queued_at,
    present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at, freed_at, ended_at)
SELECT
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful, pool,
    mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late, spared_at, waiting_for, queued_at,
    present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at, freed_at, ended_at
FROM admissions;
DROP TABLE admissions;
ALTER TABLE admissions_2 RENAME TO admissions;

CREATE UNIQUE INDEX one_admission_a_place ON admissions (pool, place) WHERE place > 0;
CREATE INDEX held_of_holder ON admissions (pool, consumer, priority) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX held_of_tenant ON admissions (tenant) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX line_of_pool ON admissions (pool, place) WHERE state = 'waiting_capacity';
CREATE INDEX placing_since ON admissions (placing_at) WHERE state = 'placing';
CREATE INDEX freed_of_pool ON admissions (pool, freed_at) WHERE freed_at > 0;
CREATE INDEX ended_since ON admissions (ended_at) WHERE ended_at > 0;
CREATE INDEX on_host ON admissions (host) WHERE host <> '';
CREATE INDEX live_until ON admissions (live_until) WHERE audience <> '';
