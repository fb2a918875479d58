CREATE TABLE settings (
    one           integer PRIMARY KEY CHECK (one = 1),
    default_quota integer NOT NULL CHECK (default_quota >= -1)
);

CREATE TABLE pools (
    name        text    PRIMARY KEY,
    cap         integer NOT NULL CHECK (cap >= -1),
    max_waiting integer NOT NULL CHECK (max_waiting >= 0),
    in_force    integer NOT NULL,
    last_place  integer NOT NULL DEFAULT 0,
    version     integer NOT NULL DEFAULT 0 -- rises with each change of an admission of the pool
) WITHOUT ROWID;

CREATE TABLE tenants (
    name  text    PRIMARY KEY,
    quota integer CHECK (quota >= -1)
) WITHOUT ROWID;

CREATE TABLE sequence (
    one  integer PRIMARY KEY CHECK (one = 1),
    last integer NOT NULL
);
INSERT INTO sequence VALUES (1, 0);

CREATE TABLE pulse (
    one integer PRIMARY KEY CHECK (one = 1),
    at  integer NOT NULL
);
INSERT INTO pulse VALUES (1, 0);

CREATE TABLE hosts (
    id            text    PRIMARY KEY,
    incarnation   integer NOT NULL UNIQUE,
    registered_at integer NOT NULL
) WITHOUT ROWID;

CREATE TABLE config (
    generation integer PRIMARY KEY CHECK (generation > 0),
    document   text    NOT NULL,
    applied_by text    NOT NULL,
    applied_at integer NOT NULL
);

CREATE TABLE admissions (
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
    pool             text    NOT NULL,
    mode             text    NOT NULL CHECK (mode IN ('refuse', 'queue')),
    max_queue_age_ms integer NOT NULL,
    state            text    NOT NULL CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing',
                                                       'released', 'timed_out', 'expired', 'evicted', 'lost')),
    reason           text    NOT NULL,
    gen              integer NOT NULL,
    epoch            integer NOT NULL,
    host             text    NOT NULL,
    place            integer NOT NULL,
    waited           integer NOT NULL,
    late             integer NOT NULL,
    spared_at        integer NOT NULL,
    waiting_for      text    NOT NULL,
    queued_at        integer NOT NULL,
    present_until    integer NOT NULL,
    hostless_at      integer NOT NULL,
    placing_at       integer NOT NULL,
    admitted_at      integer NOT NULL,
    reserved_until   integer NOT NULL,
    running_at       integer NOT NULL,
    freed_at         integer NOT NULL,
    ended_at         integer NOT NULL,

    CONSTRAINT one_admission_a_key UNIQUE (consumer, key),
    CONSTRAINT held_by_a_host CHECK ((state IN ('admitted', 'running', 'releasing')) = (host <> '')),
    CONSTRAINT epoch_on_host CHECK (host = '' OR epoch > 0),
    CONSTRAINT generation_not_below_epoch CHECK (gen >= epoch),
    CONSTRAINT placing_at_a_generation CHECK (state <> 'placing' OR gen > 0),
    CONSTRAINT waiting_at_a_place CHECK (state <> 'waiting_capacity' OR (mode = 'queue' AND place > 0 AND waiting_for <> '')),
    CONSTRAINT ended_out_of_line CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing')
                                        OR (ended_at > 0 AND place = 0)),
    CONSTRAINT running_since CHECK (state <> 'running' OR running_at > 0)
);

CREATE UNIQUE INDEX one_admission_a_place ON admissions (pool, place) WHERE place > 0;
CREATE INDEX held_of_pool ON admissions (pool) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX held_of_tenant ON admissions (tenant) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX line_of_pool ON admissions (pool, place) WHERE state = 'waiting_capacity';
CREATE INDEX out_of_line ON admissions (pool) WHERE state = 'placing' AND waited;
CREATE INDEX placing_since ON admissions (placing_at) WHERE state = 'placing';
CREATE INDEX freed_of_pool ON admissions (pool, freed_at) WHERE freed_at > 0;
CREATE INDEX ended_since ON admissions (ended_at) WHERE ended_at > 0;
CREATE INDEX on_host ON admissions (host) WHERE host <> '';
